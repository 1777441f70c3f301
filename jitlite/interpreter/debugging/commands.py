"""The commands of the debugger: pdb's, for the lines, nodes and instructions of a script."""

from __future__ import annotations

import cmd
import inspect
import pprint
import re
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from jitlite.base.source import did_you_mean
from jitlite.interpreter.debugging.breakpoints import Breakpoint, Watchpoint
from jitlite.interpreter.debugging.completion import break_targets, expression_names
from jitlite.interpreter.debugging.control import Control, Pace
from jitlite.interpreter.debugging.listing import graph_lines_around, instructions_around, source_lines
from jitlite.interpreter.debugging.locations import LocationError, breakpoint_at, line_number
from jitlite.interpreter.debugging.more_commands import NOTHING, MoreCommands, lacking
from jitlite.interpreter.debugging.scopes import described, evaluate, parameters_of
from jitlite.interpreter.disassemble import describe_instruction
from jitlite.interpreter.value_words import short_repr
from jitlite.interpreter.watching import DebuggerQuit

_COMMANDS_OF_TERMINALS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_]\w*\s*=(?!=)")
_AROUND = 5
"""Lines shown before and after the current one."""


class Prompt(MoreCommands):
    """Reads commands and does them, until one lets the program go on."""

    prompt = "(jitlite) "
    doc_header = "Commands (help COMMAND says more):"

    def __init__(self, control: Control, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        cmd.Cmd.__init__(self, stdin=stdin, stdout=stdout)
        MoreCommands.__init__(self)
        self.use_rawinput = stdin is None
        self.control = control
        self._displayed: dict[str, str] = {}
        self._listed_to = 0

    # -- what is shown

    def message(self, text: str) -> None:
        """Write a text, without what a terminal would take for commands: names in archives can be anything."""
        print(_COMMANDS_OF_TERMINALS.sub(lambda found: ascii(found.group())[1:-1], text), file=self.stdout)

    def error(self, text: str) -> None:
        self.message(f"*** {text}")

    def interact(self, texts: Sequence[str], commands: Sequence[str] = ()) -> None:
        """Show why the program stopped and where, do the commands of the breakpoints, then what the user says.

        Raises:
            DebuggerQuit: the user leaves.
            DebuggerRestart: the call is to begin again.
        """
        self._listed_to = 0
        if commands[:1] != ["silent"]:
            for text in texts:
                self.message(text)
            self.show_place()
            self._show_displayed()
        if not self.run_commands(commands):
            self.cmdloop()

    def show_place(self) -> None:
        """The line, the node and the instruction that come next."""
        scope = self.control.scope
        self.message(f"> {scope.heading()}")
        self.message(f"  source       {scope.line or '?':>4}  {scope.source_line()}")
        if scope.node is not None:
            self.message(f"  node               {scope.node_line()}")
            told = "" if scope.frame is None else self.control.known.told_of(scope.frame, scope.node)
            if told:
                self.message(f"  with               {told}")
        if scope.code is not None:
            entry = describe_instruction(scope.code, scope.pc)
            meaning = f"  ; {entry['meaning']}" if entry["meaning"] else ""
            self.message(f"  instruction  {scope.pc:>4}  {entry['text']}{meaning}")

    def _show_displayed(self) -> None:
        for expression, before in self._displayed.items():
            now = self._text_of(expression)
            if now != before:
                self._displayed[expression] = now
                self.message(f"display {expression}: {now}  [was: {before}]")

    def _value(self, expression: str) -> object:
        return evaluate(expression, self.control.scope)

    def _text_of(self, expression: str) -> str:
        try:
            return short_repr(self._value(expression))
        except Exception as error:
            return f"({type(error).__name__}: {error})"

    # -- how lines are read

    def precmd(self, line: str) -> str:
        """The command of a line. Where it was not typed into a terminal, it is shown as if it had been."""
        if not self.use_rawinput or not sys.stdin.isatty():
            self.message("quit" if line == "EOF" else line)
        if self.collect(line):
            return NOTHING
        return self.expanded("quit" if line == "EOF" else line)

    def onecmd(self, line: str) -> bool:
        """Do a command; the last one again for an empty line."""
        return False if line == NOTHING else bool(super().onecmd(line))

    def default(self, line: str) -> None:
        """Evaluate what is no command; `!` in front says that it is none."""
        text = line.removeprefix("!").strip()
        if _ASSIGNMENT.match(text):
            self.error("a variable of a script cannot be set: its values are in the graph already. What a variable "
                       "holds can be written: x.fill_(0), items.append(1)")  # fmt: skip
            return
        word = text.split()[0] if text else ""
        missing = None if word in self.control.scope.variables or line.startswith("!") else lacking(word)
        if missing is not None:
            self.error(missing)
            return
        if word.isidentifier() and word not in self.control.scope.variables and not _is_expression(text, word):
            hint = did_you_mean(word, [*self.control.scope.variables, *self.get_names_of_commands()])
            self.error(f"no command and no variable is called '{word}'{f'; {hint}' if hint else ''}")
            return
        self.do_print(text)

    def get_names_of_commands(self) -> list[str]:
        """The commands by their long names."""
        return [name[3:] for name in self.get_names() if name.startswith("do_")]

    def do_help(self, arg: str) -> None:
        """h(elp) [COMMAND]
        List the commands, or say what one does."""
        found = getattr(self, f"do_{arg}", None)
        if not arg:
            super().do_help("")
        elif found is None:
            hint = did_you_mean(arg, self.get_names_of_commands())
            self.error(lacking(arg) or f"no command is called '{arg}'{f'; {hint}' if hint else ''}")
        else:
            self.message(inspect.getdoc(found) or "")

    # -- going on

    def _go(self, pace: Pace, line: int = 0) -> bool:
        if not self.control.can_go_on:
            self.message("The exception goes on to the caller.")
        self.control.go(pace, line)
        return True

    def do_step(self, arg: str) -> bool:
        """s(tep)
        Run to the next line, which may be in a function that this one calls."""
        return self._go(Pace.STEP)

    def do_stepi(self, arg: str) -> bool:
        """si, stepi
        Run one instruction of the stack machine."""
        return self._go(Pace.INSTRUCTION)

    def do_next(self, arg: str) -> bool:
        """n(ext)
        Run to the next line of this function."""
        return self._go(Pace.NEXT)

    def do_return(self, arg: str) -> bool:
        """r(eturn), finish
        Run until this function returns; what it returns is shown."""
        return self._go(Pace.RETURN)

    def do_until(self, arg: str) -> bool | None:
        """unt(il) [LINE]
        Run to a line with a higher number, or with the given number or a higher one: to the end of a loop."""
        try:
            line = line_number(arg) if arg else self.control.scope.line + 1
        except LocationError as error:
            self.error(str(error))
            return None
        return self._go(Pace.UNTIL, line)

    def do_continue(self, arg: str) -> bool:
        """c(ontinue), cont
        Run to the next breakpoint."""
        return self._go(Pace.CONTINUE)

    def do_quit(self, arg: str) -> bool:
        """q(uit), exit
        Leave the debugger and the program."""
        raise DebuggerQuit("the debugger was left")

    # -- breakpoints

    def do_break(self, arg: str) -> None:
        """b(reak) [LINE | FILE:LINE | FUNCTION | %VALUE] [, CONDITION]
        Stop at a line, at the first line of a function, or before the node that gives a value. With a condition, only
        where that holds. Without arguments, list the breakpoints."""
        if not arg:
            for breakpoint in self.control.breakpoints:
                self.message(breakpoint.describe())
            if not len(self.control.breakpoints):
                self.message("There are no breakpoints.")
            return
        self._set(arg, is_temporary=False)

    def do_tbreak(self, arg: str) -> None:
        """tbreak LOCATION [, CONDITION]
        A breakpoint that is gone once the program has stopped there."""
        self._set(arg, is_temporary=True)

    def _set(self, arg: str, is_temporary: bool) -> None:
        where, _, condition = arg.partition(",")
        try:
            made = breakpoint_at(where.strip(), self.control.scope, self.control.frames())
            _check_expression(condition)
        except LocationError as error:
            self.error(str(error))
            return
        made.condition = condition.strip()
        made.is_temporary = is_temporary
        self.control.breakpoints.add(made)
        self.message(f"{'Temporary breakpoint' if is_temporary else 'Breakpoint'} {made.number}: {made}")

    def do_watch(self, arg: str) -> None:
        """watch EXPRESSION
        Stop when the expression gives something else than before, in this call: a variable gets another value, or
        something is written into a tensor or container. `clear NUMBER` ends it."""
        try:
            _check_expression(arg, is_needed=True)
        except LocationError as error:
            self.error(str(error))
            return
        made = Watchpoint(arg.strip(), self.control.scope)
        self.control.breakpoints.add(made)
        self.message(f"Watchpoint {made.number}: {made.expression} is {short_repr(made.last)}")

    def do_clear(self, arg: str) -> None:
        """cl(ear) [NUMBER ... | LOCATION]
        Remove breakpoints and watchpoints by number, those at a location, or all."""
        numbers = all(word.isdecimal() for word in arg.split())
        for breakpoint in self._all_or_numbered(arg) if numbers else self._located(arg):
            self.control.breakpoints.remove(breakpoint.number)
            self.message(f"Removed {breakpoint.number}: {breakpoint}")

    def _located(self, arg: str) -> list[Breakpoint]:
        try:
            wanted = str(breakpoint_at(arg, self.control.scope, self.control.frames()))
        except LocationError as error:
            self.error(str(error))
            return []
        found = [b for b in self.control.breakpoints if str(b) == wanted]
        if not found:
            self.error(f"there is no breakpoint at {wanted}")
        return found

    def _all_or_numbered(self, arg: str) -> list[Breakpoint]:
        return self._numbered(arg) if arg else list(self.control.breakpoints)

    def _numbered(self, arg: str) -> list[Breakpoint]:
        """The breakpoints with these numbers; numbers of none are told."""
        found: list[Breakpoint] = []
        for word in arg.split():
            one = self.control.breakpoints.get(int(word)) if word.isdecimal() else None
            if one is None:
                self.error(f"there is no breakpoint {word}; 'break' lists them")
            else:
                found.append(one)
        return found

    def do_enable(self, arg: str) -> None:
        """enable [NUMBER ...]
        Let breakpoints stop the program again; all without a number."""
        self._enable(arg, True)

    def do_disable(self, arg: str) -> None:
        """disable [NUMBER ...]
        Keep breakpoints, but do not stop at them; all without a number."""
        self._enable(arg, False)

    def _enable(self, arg: str, is_enabled: bool) -> None:
        for breakpoint in self._all_or_numbered(arg):
            breakpoint.is_enabled = is_enabled
            self.message(f"{'Enabled' if is_enabled else 'Disabled'} {breakpoint.number}: {breakpoint}")

    def do_condition(self, arg: str) -> None:
        """condition NUMBER [EXPRESSION]
        Stop at a breakpoint only where the expression holds; always, without one."""
        number, _, condition = arg.strip().partition(" ")
        try:
            _check_expression(condition)
        except LocationError as error:
            self.error(str(error))
            return
        if not number:
            self.error("expected the number of a breakpoint; 'break' lists them")
        for breakpoint in self._numbered(number):
            breakpoint.condition = condition.strip()
            now = f"stops only if {breakpoint.condition}" if breakpoint.condition else "always stops"
            self.message(f"Breakpoint {breakpoint.number} {now}")

    def do_ignore(self, arg: str) -> None:
        """ignore NUMBER [COUNT]
        Pass a breakpoint by so many times."""
        number, _, count = arg.strip().partition(" ")
        if count and not count.strip().isdecimal():
            self.error(f"expected how many times to pass it by, got '{count.strip()}'")
            return
        if not number:
            self.error("expected the number of a breakpoint; 'break' lists them")
        for breakpoint in self._numbered(number):
            breakpoint.ignored = int(count or 0)
            times = "once" if breakpoint.ignored == 1 else f"{breakpoint.ignored} times"
            now = f"is ignored {times}" if breakpoint.ignored else "stops again"
            self.message(f"Breakpoint {breakpoint.number} {now}")

    # -- calls

    def do_where(self, arg: str) -> None:
        """w(here), bt
        Show the calls that are running, the innermost last; `>` marks the one that commands are about."""
        for index, scope in enumerate(self.control.scopes):
            mark = ">" if index == self.control.selected else " "
            self.message(f"{mark} {scope.heading()}\n-> {scope.source_line()}")

    def do_up(self, arg: str) -> None:
        """u(p) [COUNT]
        Look at the call that called this one."""
        self._move(arg, -1)

    def do_down(self, arg: str) -> None:
        """d(own) [COUNT]
        Look at the call that this one has made."""
        self._move(arg, 1)

    def _move(self, arg: str, way: int) -> None:
        if arg and not arg.isdecimal():
            self.error(f"expected a number of calls, got '{arg}'")
            return
        last = len(self.control.scopes) - 1
        if self.control.selected == (0 if way < 0 else last):
            self.error("this is the outermost call" if way < 0 else "this is the innermost call")
            return
        self.control.selected = min(max(self.control.selected + way * int(arg or 1), 0), last)
        self._listed_to = 0
        self.show_place()

    # -- values

    def do_print(self, arg: str) -> None:
        """p(rint) EXPRESSION
        Show the value of an expression of Python. It sees the variables of the script, and torch. Of a long value, the
        beginning of each part is shown; `pp` shows all."""
        self._show(arg, short_repr)

    def do_pp(self, arg: str) -> None:
        """pp EXPRESSION
        Show the whole of a value, on several lines."""
        self._show(arg, pprint.pformat)

    def do_whatis(self, arg: str) -> None:
        """whatis EXPRESSION
        Show what a value is: its type, and of a tensor dtype, sizes and device."""
        self._show(arg, described)

    def _show(self, arg: str, text: Callable[[object], str]) -> None:
        if not arg:
            self.error("expected an expression")
            return
        try:
            shown = text(self._value(arg))
        except Exception as error:
            self.error(f"{type(error).__name__}: {error}")
            return
        self.message(shown)

    def do_args(self, arg: str) -> None:
        """a(rgs)
        Show the parameters of this call and what they are now."""
        self._show_variables(parameters_of(self.control.scope))

    def do_vars(self, arg: str) -> None:
        """vars
        Show all variables of this call."""
        self._show_variables(list(self.control.scope.variables))

    def _show_variables(self, names: Sequence[str]) -> None:
        for name in names:
            self.message(f"{name} = {short_repr(self.control.scope.variables[name])}")
        if not names:
            self.message("There are none.")

    def do_display(self, arg: str) -> None:
        """display [EXPRESSION]
        Show an expression at each stop where it gives something else than before; list them without one."""
        if not arg:
            for expression, text in self._displayed.items():
                self.message(f"{expression}: {text}")
            return
        self._displayed[arg] = self._text_of(arg)
        self.message(f"display {arg}: {self._displayed[arg]}")

    def do_undisplay(self, arg: str) -> None:
        """undisplay [EXPRESSION]
        Do not show it any more; none, without one."""
        if arg and arg not in self._displayed:
            self.error(f"'{arg}' is not displayed")
        for expression in [arg] if arg else list(self._displayed):
            self._displayed.pop(expression, None)

    # -- text

    def do_list(self, arg: str) -> None:
        """l(ist) [LINE | FIRST, LAST | .]
        Show the source around the current line, then what follows; around another line; or some lines. `->` marks the
        current line, `B` breakpoints."""
        scope = self.control.scope
        if scope.range is None:
            self.error("this function has no source; 'graph' and 'dis' show what runs")
            return
        try:
            first, last = self._lines_to_list(arg, scope.line)
        except LocationError as error:
            self.error(str(error))
            return
        lines = source_lines(scope, first, last, self.control.breakpoints.lines_of(scope.filename))
        self._listed_to = last
        self.message("\n".join(lines) or "[end of the source]")

    def _lines_to_list(self, arg: str, current: int) -> tuple[int, int]:
        if not arg and self._listed_to:
            return self._listed_to + 1, self._listed_to + 2 * _AROUND + 1
        first, comma, last = arg.partition(",")
        if comma:
            return line_number(first), line_number(last)
        middle = line_number(first) if arg not in ("", ".") else current
        return max(middle - _AROUND, 1), max(middle - _AROUND, 1) + 2 * _AROUND

    def do_graph(self, arg: str) -> None:
        """graph
        Show the nodes around the one that comes next. `break %VALUE` stops before the node that gives a value."""
        self._show_lines(graph_lines_around(self.control.scope, _AROUND))

    def do_dis(self, arg: str) -> None:
        """dis
        Show the instructions around the one that comes next."""
        self._show_lines(instructions_around(self.control.scope, _AROUND))

    def _show_lines(self, lines: Sequence[str]) -> None:
        if lines:
            self.message("\n".join(lines))
        else:
            self.error("this call is not run by the stack machine")

    # -- completion

    def completedefault(self, text: str, line: str, begidx: int, endidx: int) -> list[str]:
        """Complete the names of an expression."""
        return expression_names(text, self.control.scope)

    def complete_break(self, text: str, line: str, begidx: int, endidx: int) -> list[str]:
        return break_targets(text, self.control.frames())

    complete_tbreak = complete_b = complete_clear = complete_break

    do_s, do_si, do_n, do_r, do_c, do_q = do_step, do_stepi, do_next, do_return, do_continue, do_quit
    do_finish, do_unt, do_cont, do_exit = do_return, do_until, do_continue, do_quit
    do_b, do_cl, do_w, do_bt, do_u, do_d = do_break, do_clear, do_where, do_where, do_up, do_down
    do_p, do_a, do_l, do_h = do_print, do_args, do_list, do_help


def _is_expression(text: str, word: str) -> bool:
    """Is it more than a word, and Python's? `brek 3` is not."""
    try:
        compile(text, "<debugger>", "eval")
    except SyntaxError:
        return False
    return text != word


def _check_expression(text: str, is_needed: bool = False) -> None:
    if is_needed and not text.strip():
        raise LocationError("expected an expression")
    try:
        if text.strip():
            compile(text.strip(), "<debugger>", "eval")
    except SyntaxError as error:
        raise LocationError(f"'{text.strip()}' is not an expression: {error.msg}") from None
