"""try, except, else and finally: programs do what they do in Python, and what cannot be compiled says why."""

from __future__ import annotations

import random
import re
import weakref
from typing import Dict, List, Optional, Tuple

import pytest
import torch
from laws import observe
from strategies import compile_source
from torch import Tensor

import jitlite
from jitlite import CompileError
from jitlite.analysis.alias import AliasDb
from jitlite.interpreter import bytecode, vm
from jitlite.interpreter.check import CodeError, check_code
from jitlite.interpreter.code import Code, CodePlace, Instruction
from jitlite.interpreter.disassemble import disassemble
from jitlite.ir.parser import parse
from jitlite.ir.verify import VerifyError, verify
from jitlite.passes import registry


class OwnError(Exception):
    pass


class NarrowError(OwnError):
    pass


def agree(function, *argument_lists):
    """The compiled function, optimized and not, does what the function does; gives the outcomes."""
    scripted = jitlite.script(function)
    verify(scripted.graph)
    text = scripted.graph.to_text(ranges=False)
    assert parse(text).to_text(ranges=False) == text
    code = bytecode.lower(scripted.graph)
    check_code(code)
    outcomes = []
    for arguments in argument_lists:
        wanted = observe(function, list(arguments))
        for run in (scripted, lambda *args: vm.run(code, args), lambda *args: vm.run(code, args, step_limit=100_000)):
            got = observe(run, list(arguments))
            assert repr(got.told) == repr(wanted.told)
        outcomes.append(wanted)
    return outcomes


# -- which exception, which handler


def test_the_first_clause_that_fits_handles():
    def f(n: int) -> str:
        try:
            if n == 0:
                raise KeyError("zero")
            if n == 1:
                raise ValueError("one", n)
            if n == 2:
                raise NarrowError("two")
            if n == 3:
                raise AssertionError("three")
            if n == 4:
                raise RuntimeError
            return str([5, 6][n])
        except LookupError as e:
            return f"lookup {e}"
        except (ValueError, AssertionError) as e:
            return f"value {e!s}"
        except OwnError as e:
            return "own " + str(e)

    outcomes = agree(f, *[(n,) for n in range(6)])
    assert [o.result for o in outcomes[:4]] == ["lookup 'zero'", "value ('one', 1)", "own two", "value three"]
    assert [o.raised for o in outcomes] == ["", "", "", "", "RuntimeError", ""]


def test_exceptions_of_operators_reach_handlers_with_eager_types():
    def f(x: Tensor, y: Tensor, d: Dict[str, int], xs: List[int], n: int) -> str:
        try:
            if n == 0:
                return str(d["missing"])
            if n == 1:
                return str(xs[7])
            if n == 2:
                return str(1 // len(d))
            if n == 3:
                return str((x @ y).size(0))
            if n == 4:
                return str(int("seven"))
            if n == 5:
                xs.remove(9)
            if n == 6:
                assert n == 7, "not seven"
        except KeyError:
            return "KeyError"
        except IndexError:
            return "IndexError"
        except ZeroDivisionError:
            return "ZeroDivisionError"
        except ValueError:
            return "ValueError"
        except AssertionError:
            return "AssertionError"
        except RuntimeError:
            return "RuntimeError"
        return "none"

    outcomes = agree(f, *[(torch.ones(2, 3), torch.ones(2, 3), {}, [1], n) for n in range(8)])
    assert [o.result for o in outcomes] == [
        "KeyError", "IndexError", "ZeroDivisionError", "RuntimeError", "ValueError", "ValueError",
        "AssertionError", "none",
    ]  # fmt: skip


def test_an_exception_of_a_called_function_is_caught_by_the_caller():
    def deepest(n: int) -> int:
        with torch.no_grad():
            if n > 1:
                raise IndexError("deep")
        return n

    def recursive(n: int) -> int:
        return deepest(2) if n == 0 else recursive(n - 1)

    def f(n: int, x: Tensor) -> Tuple[Tensor, int]:
        got = -1
        try:
            with torch.no_grad():
                got = deepest(n)
                got = recursive(n)
        except IndexError:
            print(torch.is_grad_enabled())
            got += 10
        return x * got, got

    agree(f, (0, torch.ones(2)), (3, torch.ones(2)))


def test_python_functions_raise_into_handlers():
    @torch.jit.ignore
    def left_to_python(n: int) -> int:
        raise NarrowError(str(n))

    def f(n: int) -> str:
        try:
            return str(left_to_python(n))
        except OwnError as e:
            return f"caught {e}"

    assert [o.result for o in agree(f, (3,))] == ["caught 3"]


def test_raise_alone_and_raise_from():
    def f(n: int) -> int:
        try:
            try:
                return [4][n]
            except IndexError as e:
                print("first", e)
                if n == 1:
                    raise
                if n == 2:
                    raise OwnError("second") from e
                if n == 3:
                    raise e
                raise ValueError("third") from None
        except (IndexError, OwnError) as e:
            print("outer", e)
            return -1

    agree(f, *[(n,) for n in range(5)])

    def chained(n: int) -> int:
        try:
            return [4][n]
        except IndexError as e:
            raise OwnError("chained") from e

    with pytest.raises(OwnError) as raised:
        jitlite.script(chained)(3)
    assert isinstance(raised.value.__cause__, IndexError)


def test_bare_except_and_base_exception():
    @torch.jit.ignore
    def interrupt() -> None:
        raise KeyboardInterrupt

    def bare(n: int) -> int:
        try:
            if n == 0:
                interrupt()
            return [1][n]
        except:  # noqa: E722
            return -1

    def narrow(n: int) -> int:
        try:
            interrupt()
        except Exception:
            return -1
        return n

    agree(bare, (0,), (3,))
    with pytest.raises(KeyboardInterrupt):
        jitlite.script(narrow)(0)


# -- variables


def test_what_the_body_set_before_it_stopped_is_seen():
    def f(d: Dict[str, int], keys: List[str]) -> Tuple[int, str, List[int]]:
        total, last, seen = 0, "none", [0]
        try:
            for key in keys:
                last = key
                seen = seen + [len(key)]
                if len(key) > 1:
                    total += d[key]
                total += 100
        except KeyError:
            total = -total
            last += "!"
        return total, last, seen

    agree(f, ({"ab": 1}, ["a", "ab"]), ({"ab": 1}, ["ab", "xy", "ab"]), ({}, ["a", "b", "cd"]), ({}, []))


def test_optional_variables_and_refinement():
    def f(d: Dict[str, int], key: str) -> Optional[int]:
        found: Optional[int] = None
        try:
            found = 1
            if found is not None:
                found = found + d[key]
            found = None
            d["never"]
        except KeyError:
            if found is None:
                return -5
        return found

    agree(f, ({"a": 3}, "a"), ({"a": 3}, "b"))


def test_mutation_before_the_exception_stays():
    def f(xs: List[int], x: Tensor, n: int) -> int:
        try:
            xs.append(n)
            x.add_(1)
            xs[n] = 9
            x[n] = 5
        except IndexError:
            xs.append(-1)
        return len(xs)

    agree(f, ([1, 2], torch.zeros(4), 1), ([1, 2], torch.zeros(4), 3), ([], torch.zeros(1), 7))


def test_gradients_flow_through_either_block():
    def f(x: Tensor, n: int) -> Tensor:
        y = x * 2
        try:
            y = y * 3
            y = y + [x, y][n]
        except IndexError:
            y = y.exp()
        finally:
            y = y * x
        return y.sum()

    for n in (0, 1, 2):
        leaves = [torch.tensor([0.5, -1.0], requires_grad=True) for _ in range(2)]
        for function, leaf in zip((f, jitlite.script(f)), leaves):
            function(leaf, n).backward()
        assert torch.equal(leaves[0].grad, leaves[1].grad)


def test_the_name_of_the_exception_is_of_the_clause():
    def f(n: int) -> int:
        e = 5
        try:
            n = [1, 2][n]
        except IndexError as error:
            text = str(error)
            for e in range(2):
                print(e, text, error)
            return e
        return n + e

    agree(f, (1,), (4,))


# -- else and finally


def test_else_is_run_unprotected():
    def f(d: Dict[str, int], key: str) -> int:
        try:
            try:
                value = d[key]
            except KeyError:
                result = -1
            else:
                print("else", value)
                result = d[key + "x"] + value
        except KeyError:
            return -2
        return result

    agree(f, ({"a": 1, "ax": 2}, "a"), ({"a": 1}, "a"), ({}, "a"))


def test_finally_on_every_way_out():
    def f(way: int) -> int:
        log = 0
        for i in range(3):
            try:
                log += 1
                if i == 1:
                    if way == 0:
                        return log
                    if way == 1:
                        break
                    if way == 2:
                        continue
                    if way == 3:
                        raise ValueError("three")
                    if way == 4:
                        raise KeyError("four")
                log += 10
            except ValueError:
                log += 100
                if way == 3:
                    continue
            else:
                log += 1000
            finally:
                log += 10000
                print(way, i, log)
        return log

    agree(f, *[(way,) for way in range(6)])


def test_a_finally_changes_what_the_loop_goes_on_with():
    def f(n: int) -> int:
        i, rounds = 0, 0
        while i < n:
            try:
                if i % 2 == 0:
                    continue
                if i == 5:
                    break
                rounds += 1
            finally:
                i += 1
                rounds += 10
        else:
            rounds = -rounds
        return rounds

    agree(f, *[(n,) for n in range(9)])


def test_a_return_in_finally_wins():
    def f(n: int) -> int:
        try:
            if n == 0:
                raise ValueError("lost")
            if n == 1:
                return 5
            n += 1
        finally:
            if n < 3:
                return -n
        return n

    outcomes = agree(f, *[(n,) for n in range(4)])
    assert [o.result for o in outcomes] == [0, -1, 3, 4]


def test_returned_values_are_those_before_the_finally():
    def f(xs: List[int]) -> Tuple[int, List[int]]:
        n = len(xs)
        try:
            return n, xs
        finally:
            n = 99
            xs.append(n)

    agree(f, ([1],))


def test_exceptions_in_handlers_and_in_finally():
    def f(n: int) -> int:
        try:
            try:
                try:
                    n = [1][n]
                except IndexError:
                    n = [5, 6][n]
                finally:
                    n = n // (n - 1)
            except ZeroDivisionError:
                return -100
            return n
        finally:
            print("end", n)

    agree(f, *[(n,) for n in range(4)])


def test_nested_finally_with_jumps_through_both():
    def f(xs: List[int]) -> int:
        total = 0
        for x in xs:
            try:
                try:
                    if x == 1:
                        continue
                    if x == 2:
                        break
                    if x == 3:
                        return total
                    total += x
                finally:
                    total += 1000
            finally:
                total *= 2
        return total

    agree(f, ([4, 1, 4],), ([4, 2, 4],), ([4, 3, 4],), ([],))


def test_with_blocks_are_left_before_the_handler():
    def f(n: int) -> Tuple[bool, bool]:
        inside, behind = True, False
        try:
            with torch.no_grad():
                inside = torch.is_grad_enabled()
                n = [1][n]
        except IndexError:
            behind = torch.is_grad_enabled()
        return inside, behind

    outcomes = agree(f, (0,), (1,))
    assert outcomes[1].result == (False, True)


# -- generated programs


def generated(seed: int) -> str:
    """A function of nested tries, loops and jumps over two ints, a list and a dict."""
    chance = random.Random(seed)
    names = ["a", "b"]
    lines = ["def f(a: int, b: int, xs: List[int], d: Dict[int, int]) -> int:"]
    kinds = ["KeyError", "IndexError", "ZeroDivisionError", "(KeyError, ValueError)", "Exception"]

    def expression() -> str:
        one, two = (chance.choice([*names, "0", "1", "2"]) for _ in range(2))
        return chance.choice([one, f"({one} + {two})", f"{one} // {two}", f"xs[{one} % 4]", f"d[{one}]"])

    def jump(loop: bool, handler: bool) -> str:
        ways = [f"return {expression()}", f"raise ValueError(str({expression()}))", "raise KeyError('k')"]
        return chance.choice([*ways, *(["break", "continue"] * 2 if loop else []), *(["raise"] if handler else [])])

    def block(indent: int, loop: bool, handler: bool) -> None:
        for _ in range(1 + chance.randrange(3)):
            statement(indent, loop, handler)
        if indent > 1 and chance.random() < 0.25:
            lines.append("    " * indent + jump(loop, handler))

    def statement(indent: int, loop: bool, handler: bool) -> None:
        margin, choice = "    " * indent, chance.randrange(10) if indent < 5 else chance.randrange(4)
        if choice < 3:
            lines.append(f"{margin}{chance.choice(names)} = {expression()}")
        elif choice < 4:
            lines.append(f"{margin}print({expression()}, xs)")
        elif choice < 5:
            lines.append(f"{margin}if {expression()} < {expression()}:")
            block(indent + 1, loop, handler)
        elif choice < 7:
            heads = ["for _ in range(3):", "for b in xs[:3]:", "for a in (1, 2):"]
            lines.append(margin + chance.choice(heads))
            block(indent + 1, True, handler)
            if chance.random() < 0.5:
                lines.append(f"{margin}else:")
                block(indent + 1, loop, handler)
        else:
            attempt(indent, loop, handler)

    def attempt(indent: int, loop: bool, handler: bool) -> None:
        margin, final = "    " * indent, chance.random() < 0.5
        lines.append(f"{margin}try:")
        block(indent + 1, loop, handler)
        if not final or chance.random() < 0.5:
            lines.append(f"{margin}except {chance.choice(kinds)} as e:")
            lines.append(f"{margin}    print(e)")
            block(indent + 1, loop, True)
            if chance.random() < 0.3:
                lines.append(f"{margin}else:")
                block(indent + 1, loop, handler)
        if final:
            lines.append(f"{margin}finally:")
            block(indent + 1, False, handler)

    block(1, False, False)
    attempt(1, False, False)
    return "\n".join([*lines, "    return a * 7 + b"]) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_generated_programs_do_what_python_does(first):
    arguments = [(0, 1, [1, 2, 3], {0: 1}), (3, 2, [], {}), (1, 0, [0, 5, 1, 1], {1: 3, 2: 2})]
    for seed in range(first, first + 20):
        function = compile_source(generated(seed))["f"]
        wanted = [observe(function, list(a)).told for a in arguments]
        scripted = jitlite.script(function)
        graphs = [scripted.graph, scripted.graph.copy()]
        names = [name for name in registry.names() if name != "lower_tuples"]
        registry.run(graphs[1], random.Random(seed).choices(names, k=8), registry.PassHook(verify=True))
        codes = [bytecode.lower(graph) for graph in graphs]
        for run in (scripted, *(lambda *a, code=code: vm.run(code, a) for code in codes)):
            got = [observe(run, list(a)).told for a in arguments]
            assert got == wanted, f"seed {seed}\n{generated(seed)}"


# -- refusals


def refused(body: str, message: str, hint: str = "") -> None:
    lines = "\n".join("    " + line for line in body.splitlines())
    function = compile_source(f"def f(n: int, d: Dict[int, int]) -> int:\n{lines}\n")["f"]
    with pytest.raises(CompileError) as raised:
        jitlite.script(function)
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")
    assert raised.value.range is not None


def test_what_the_body_may_not_have_set_cannot_be_read():
    protected = "v = 'a'\nprint(v)\nif n > 1:\n    del v\ntry:\n    v = d[n]\n"
    refused(f"{protected}except KeyError:\n    print(v)\nreturn n", "may not have been set when the body")
    refused(f"{protected}except KeyError:\n    pass\nreturn v", "v is not defined in the handlers of the try")
    refused(f"{protected}finally:\n    print(v)\nreturn v", "may not have been set when the body")
    refused("try:\n    n = d[n]\nexcept KeyError as e:\n    pass\nprint(e)\nreturn n", "undefined value e")
    refused("e = 1\ntry:\n    n = d[n]\nexcept KeyError as e:\n    pass\nreturn e", "e is deleted at the end")


def test_handlers_name_exception_classes():
    refused("try:\n    n = d[n]\nexcept n:\n    pass\nreturn n", "except takes an exception class")
    refused("try:\n    n = d[n]\nexcept (KeyError, int):\n    pass\nreturn n", "except takes an exception class")


def test_raise_needs_an_exception():
    refused("raise", "outside of a handler", "name the exception")
    refused("raise n", "must derive from BaseException")
    refused("raise KeyError('x') from n", "must derive from BaseException")


def test_a_jump_out_of_a_finally_is_refused():
    refused(
        "while n > 0:\n    try:\n        n -= 1\n    finally:\n        break\nreturn n",
        "leaves a finally",
        "set a flag",
    )


def test_a_variable_keeps_its_type_in_the_body():
    refused("v = 1\ntry:\n    v = 'a'\nexcept KeyError:\n    pass\nreturn n", "previously had type int")


# -- graphs, passes and bytecode

TRY = """graph(%d : Dict(str, int), %k : str, %n : int):
  %r : int = prim::Try()
    block0():
      %v : int = aten::__getitem__(%d, %k)
      -> (%v)
    block1(%e : Exception):
      -> (%n)
  return (%r)
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("block1(%e : Exception):", "block1():", "the first block of prim::Try has no input"),
        ("block1(%e : Exception):", "block1(%e : int):", "the first block of prim::Try has no input"),
        ("      -> (%n)", "      -> ()", "returns 0 values for 1 outputs"),
        ("      -> (%n)", "      -> (%k)", "is of type str but becomes"),
        ("prim::Try()", "prim::Try(%n)", "prim::Try has 0 inputs, not 1"),
    ],
)
def test_the_verifier_knows_try(old, new, message):
    verify(parse(TRY))
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(parse(TRY.replace(old, new)))


def test_nothing_moves_past_what_raises_into_a_handler():
    graph = parse("""graph(%d : Dict(str, int), %k : str, %n : int):
  %c : int[] = prim::ListConstruct(%n)
  %r : int = prim::Try()
    block0():
      prim::SetCell(%c, %n)
      %v : int = aten::__getitem__(%d, %k)
      -> (%v)
    block1(%e : Exception):
      %o : int = prim::GetCell(%c)
      -> (%o)
  return (%r)
""")
    verify(graph)
    write, read = (n for n in graph.all_nodes() if n.kind in ("prim::SetCell", "aten::__getitem__"))
    assert not AliasDb(graph).can_move_after(write, read)
    assert not AliasDb(graph).can_move_before(read, write)
    unprotected = parse("""graph(%d : Dict(str, int), %k : str, %n : int):
  %c : int[] = prim::ListConstruct(%n)
  prim::SetCell(%c, %n)
  %v : int = aten::__getitem__(%d, %k)
  return (%v)
""")
    write, read = (n for n in unprotected.all_nodes() if n.kind in ("prim::SetCell", "aten::__getitem__"))
    assert AliasDb(unprotected).can_move_after(write, read)


def test_the_listing_shows_what_is_protected():
    listing = disassemble(bytecode.lower(parse(TRY)))
    assert re.search(r"TRY \d+ +; to (\d+)", listing)
    assert listing.index("END_TRY") < listing.index("RET")


def code_of(*instructions: Instruction) -> Code:
    return Code("f", 0, 0, list(instructions), [CodePlace(None)] * len(instructions))


def test_the_checker_counts_protected_parts():
    check_code(code_of(Instruction("TRY", 2), Instruction("END_TRY", 2), Instruction("DROP"), Instruction("RET")))
    with pytest.raises(CodeError, match="is not begun"):
        check_code(code_of(Instruction("END_TRY", 1), Instruction("RET")))
    with pytest.raises(CodeError, match="is not ended"):
        check_code(code_of(Instruction("TRY", 2), Instruction("RET"), Instruction("DROP"), Instruction("RET")))
    with pytest.raises(CodeError, match="both in and behind"):
        check_code(code_of(Instruction("TRY", 2), Instruction("JMP", 2), Instruction("DROP"), Instruction("RET")))


def test_the_traceback_shows_where_it_was_raised_first():
    def f(n: int) -> int:
        try:
            return [1][n]  # here
        finally:
            print("finally")

    with pytest.raises(IndexError) as raised:
        jitlite.script(f)(3)
    (note,) = raised.value.__notes__
    assert "return [1][n]  # here" in note.split("<--- HERE")[0]


def test_a_step_limit_is_not_the_programs_to_catch():
    def f(n: int) -> int:
        while n > 0:
            try:
                n += 1
            except Exception:
                return -1
        return n

    with pytest.raises(vm.StepLimit):
        vm.run(bytecode.lower(jitlite.script(f).graph), [1], step_limit=500)


def test_a_caught_exception_does_not_keep_the_run_alive():
    class Marked(list):
        pass

    def f(xs: List[int], n: int) -> int:
        try:
            return xs[n]
        except IndexError:
            return -1

    scripted = jitlite.script(f)
    marked = Marked([1])
    alive = weakref.ref(marked)
    assert scripted(marked, 3) == -1
    del marked
    assert alive() is None
