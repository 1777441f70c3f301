"""What is known of operators and other kinds of nodes beside their schemas, asked for by name.

    node.has(Trait.SAME_VALUE)          a promise that holds for every overload of the name
    op.has(Trait.NEVER_CHOSEN)          the same, or a promise of this overload, declared as "aten::view.dtype"
    Link.OPPOSITE.of("aten::lt")        another operator in a fixed relation to it: "aten::ge"
    Spelling.BINARY.of("aten::add")     how Python or an archive spells it: "+"

Each is declared beside the operator's schema (`traits=` of `op` and `structural`, or a row `known(name, ...)` in the
same file of `jitlite/operators/`), and for operators of torch's dispatcher by a row of `operators/dispatcher.py`.
Passes keep no lists of names: they ask here.
"""

from __future__ import annotations

import enum


@enum.unique
class Trait(enum.Enum):
    """A promise about an operator or a kind of node. Its value says what holds; `kinds` are those that it holds for."""

    def __init__(self, promise: str) -> None:
        self.promise = promise
        self.kinds: set[str] = set()

    WITHOUT_SCHEMA = "no operator of ours: made by a pass, or known from graphs and versions of torch"
    SAME_VALUE = "gives its first input itself, typed otherwise, or raises"
    UNCHECKED = "of SAME_VALUE: tests nothing and cannot raise, so that nothing is left of it at run time"
    CHECKS_CLASS = "of SAME_VALUE: raises for an object that is not of the class that the graph names"
    FRESH = "made up of other operators, and yet its results never share memory with its inputs"
    OBSERVES_IDENTITY = "tells apart two objects of equal value"
    OBSERVES_HISTORY = "sees how a tensor came about: leaf, gradient, base, version"
    COMPARES_ELEMENTS = "compares elements of containers by value, except that an element is equal to itself"
    TAKES_UNSEEN = "hands its inputs on without looking at them, so it tells no two apart"
    NEW_CONTAINER = "makes a new list or dict that holds its inputs"
    CHANGES_FORM = "writes its first argument and may change more of it than its elements"
    EXCHANGES_MEMORY = "writes what a tensor object is, and not what is in its memory"
    PLAIN_VIEW = "its result always is a view of the first argument"
    OVER_ELEMENTS = "goes through the elements of a list once: in Python, of a set as well"
    DICT_VIEW = "lists the keys, values or items of a dict, or the elements of a set"
    KEEPS_LENGTH = "writes a list or a cell and leaves its length"
    UNMARKED_STATISTICS = (
        "normalizes, and in training writes its running statistics although its schema does not say so"
    )
    KERNEL_STATISTICS = (
        "a kernel of one device for batch normalization: in training it writes its running statistics, unmarked"
    )
    KEEPS_MODES = "has a side effect, but leaves grad mode, default dtype and other modes as they are"
    KEEPS_FACTS = "has a side effect, but writes nothing and sets no mode"
    SILENT = "is left out while an archive is loaded: it only prints or warns"
    RAISES_OR_WARNS = "raises or warns on purpose"
    REACHES_OUT = "reads or writes files, or talks to other processes"
    REFUSED_IN_ARCHIVES = "runs Python code that an archive would have to bring along"
    SHOWS = "shows its inputs: writes them as text, or gives them to an exception"
    RUNS_METHODS = "may call methods that classes of the program define, for objects among its inputs"
    RUNS_UNKNOWN = "runs what cannot be followed from its place in the graph, now or while others run"
    GROWING = "the size of its result grows with the value of an operand: what it costs is asked before it is folded"
    NOT_FOLDED = "has no effect, and yet its result is no constant or not worth one"
    STAYS_IN_LOOPS = (
        "never moves out of a loop: a cast is true where it stands, the length of a range stays with the loop over it"
    )
    NEVER_PROFILED = "gives values whose types need no profile"
    TOTAL = "has a first overload in the dispatcher that raises for no tensor, of whatever layout and dtype"
    PLAIN_INT = "its int is a number, never the code of a dtype, layout or memory format"
    GIVES_CODE = "gives a dtype, layout or quantization scheme, which graphs type as int"
    HANDS_ON_CODES = "gives what it was given, and its schema says int for it"
    COMPARES_CODES = "finds its ints equal or hands them on, and computes nothing with them"
    SYMBOLIC = "is computed with sizes that are known by a symbol only"
    NEVER_CHOSEN = "an overload that would hide another: an int may be a dtype, two tensors an input and an output"
    NOT_LOADED = "an overload that lite archives do not mean: it ends the process or gives numbers another meaning"
    UNLIKE_BINDING = "its binding in Python does something else than the dispatcher's with the same arguments"
    RENAMED_IN_SOURCE = "another name that the front end replaces and passes do not know"
    KEEPS_BOOLS = "may give what it is given: a bool would stay a bool"
    NONE_TEST = "has its answer from whether the input is None"
    CONNECTIVE = "a connective of truth values"
    TENSOR_OR_NUMBER = "has overloads with a tensor and with a number as second operand"
    LIKE_FIRST = "gives a new tensor of shape and dtype of the first input, unless arguments say otherwise"
    DTYPE_OF_FIRST = "torch's dispatcher does not have it, and its result has the dtype of the first argument"
    FACTORY = "makes a tensor of the sizes it is given, of the default dtype unless it is told one"
    TENSOR_OF_NUMBER = "makes a tensor of a number or of nested lists of numbers"
    CONVERSION = "gives the tensor with another dtype, on another device or in another layout"
    OTHER_ELEMENTS = "may give a view, but one of other elements, or one that does not require a gradient"
    MOVES_DEVICE = "gives the tensor on the device that its name says"
    ABOUT_SHAPE = "answers from the sizes of a tensor"
    ABOUT_FORM = "answers from sizes, dtype or device of a tensor and reads none of its elements"
    SHAPE_DEPENDS_ON_VALUES = (
        "the sizes of its results may depend on what is in the tensors (torch marks others itself)"
    )
    NEVER_SAMPLED = "is not run on samples to learn the types of its results"
    CONVOLUTION = "a convolution"
    TRANSPOSED = "of CONVOLUTION: a transposed one"
    MAY_BE_TRANSPOSED = "of CONVOLUTION: an argument says whether it is transposed"
    MKLDNN_CONVOLUTION = "of CONVOLUTION: oneDNN computes it with prepared weights"
    MKLDNN_ARITHMETIC = "computes element by element on two tensors of oneDNN, whose order does not matter"
    MKLDNN_IN_PLACE = "has a variant for tensors of oneDNN that writes its first argument"
    DROPOUT = "dropout: with `p` and `train` as second and third argument"
    ELEMENTWISE_LOSS = "a loss of pairs of elements, then reduced as the argument `reduction` says"
    GIVES_CONTIGUOUS = "gives a contiguous tensor for contiguous inputs"
    NOT_CAST = "keeps the dtypes of its inputs under autocasting"
    TYPED_MAKER = "makes a tensor of the dtype of its argument"
    CORE_KEPT = (
        "is no core ATen and stays when graphs are lowered to it: only `detach` cuts gradients, `lift_fresh` does "
        "nothing"
    )
    CORE_QUESTION = "asks a tensor for a number: stays when graphs are lowered to core ATen"
    CORE_CONTAINER = "works on containers or futures: stays when graphs are lowered to core ATen"
    CORE_EXACT = "its lowering to core ATen shares no memory with the arguments and raises what the operator raises"
    AUTOGRAD_ZERO = "takes or gives an absent gradient"
    CALL = "calls a function or method of the program"
    PYTHON_CALL = "calls a Python function that is not compiled; its attributes are open"
    LIST = "makes a list of its inputs or gives the elements of one"
    DISPLAY = "makes a list, dict or tuple of its inputs, or gives parts of one"
    FORWARDS_TUPLES = "can take and give the elements of a tuple in its place"
    GROUP = "carries a graph as attribute `Subgraph`"
    CHECKED_GROUP = "of GROUP: its graph takes the inputs of the node, which the verifier checks"
    NEVER_NESTED = "its result is always a variable of the interpreter: it is not computed where it is used"
    EARLY_BLOCKS = "has blocks, about which there is no rule, before SSA conversion"
    CLOSED = "its block reads nothing from around it but its parameters, and has constants of its own"
    FUNCTION_SCOPE = "its block is the body of a function: a `return` in it leaves only the block"
    DEFERS_CALL = "its inputs are used by a graph of their own, later or more than once"
    DEFERRED = "of DEFERS_CALL: runs its graph later and gives a Future or Await"
    PROFILES = "records types or values as they pass through"
    SPREADS = "gives a tuple of its outputs even when it has a single one"
    PACKS_NUMBERS = "brings arguments into the form that operators take"
    EARLY_EXIT = "a `return`, `break` or `continue` before exits are removed"
    IS_STATEMENT = "is a statement in Python, not an expression"
    ALWAYS_NESTED = "is written within other expressions of Python although the program had a variable"
    KEEPS_OBJECTS_INSIDE = (
        "hands objects on or looks into them, so that a graph still knows them, or at least their type"
    )
    SUGAR = "a function that is no operator by itself: it compiles to others"


class _Naming(enum.Enum):
    """A text that kinds have; none has two, and several may have the same."""

    def __init__(self, meaning: str) -> None:
        self.meaning = meaning
        self.by_kind: dict[str, str] = {}
        self.kind_of: dict[str, str] = {}
        """The kind by the text: the one that was declared first where several have the text."""

    def of(self, kind: str) -> str | None:
        return self.by_kind.get(kind)

    def __call__(self, text: str) -> tuple[_Naming, str]:
        """What `known` takes."""
        return self, text


@enum.unique
class Link(_Naming):
    """Names another operator, which stands in this relation to the kind."""

    OPPOSITE = "the comparison that holds where this one does not (for numbers, not for NaN among them)"
    MIRRORED = "the comparison with its operands exchanged"
    OF_BOOLS = "what it is for two bools, which have no identity"
    SCATTER = "the operator that gives the whole tensor with the viewed part replaced"
    OUT_OF_PLACE = "the operator that computes what this one writes, where names differ by more than `_`"
    MKLDNN = "what computes it for a tensor of oneDNN"
    USUAL_NAME = "the operator of which this is another name"
    LIFTED = "what it becomes once its closure is a graph of its own"


@enum.unique
class Spelling(_Naming):
    """Says how Python, an archive or a message names the kind."""

    BINARY = "the operator of Python between two operands, as the tree of the program names it"
    UNARY = "the operator of Python before one operand, as the tree of the program names it"
    AUGMENTED = "the operator of Python that is assigned with (`+=`), for a tensor"
    CODED = "what the int stands for that it gives: a dtype or a layout"
    DEVICE_PROPERTY = "the attribute of a device that means it"
    TENSOR_PROPERTY = "the attribute of a tensor that means it"
    PRIVATE_FUNCTION = "the private function of torch.jit that means it"
    CONTEXT_METHOD = "the method of a context that it calls"
    OPCODE = "the instruction of the lite interpreter that calls it"
    VARIABLE = "what a variable for its result is called in Python"
    LOST = "what another tracer loses of it"
    TRACED_AS = "what a warning says that a tensor was turned into"
    ASKS_FOR = "what it asks a tensor for, that a trace cannot follow"
    ARCHIVED = "the function that archives name for it, where it is not of the operator's name"
    DEFERRED_FUNCTION = "the name of a function that it runs later"
    WRAPPER = "the type that stands for its result until it is there"
    REGION = "the kind of region that it is TorchScript's spelling of"


Known = Trait | tuple[_Naming, str]


def known(kind: str, *facts: Known) -> None:
    """Declare what is known of an operator or another kind of node."""
    for fact in facts:
        if isinstance(fact, Trait):
            fact.kinds.add(kind)
        else:
            naming, text = fact
            if naming.by_kind.setdefault(kind, text) != text:
                raise ValueError(f"{kind} has two texts for {naming}")
            naming.kind_of.setdefault(text, kind)


def declared_kinds() -> set[str]:
    """All kinds that something is known of."""
    found = set().union(*(trait.kinds for trait in Trait))
    for group in (Link, Spelling):
        found.update(*(naming.by_kind for naming in group))
    return found
