"""Kinds of errors: modules."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError

NOT_INITIALIZED = ErrorKind(
    CompileError,
    "J0701",
    "module that is not initialized",
    """
    The module's __init__ did not call super().__init__(), or it has lazy parameters whose sizes the first call in
    Python decides. Call super() first, or run the module once.
    """,
    wrong="""
import jitlite
import torch
from torch import nn

net = jitlite.script(nn.Sequential(nn.LazyLinear(3)))
""",
    right="""
import jitlite
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.LazyLinear(3))
net(torch.ones(2, 4))
print(jitlite.script(net)(torch.ones(2, 4)))
""",
)

NO_FORWARD = ErrorKind(
    CompileError,
    "J0702",
    "module without forward",
    """
    A module is called in a script, and neither has a forward of its own nor one that can be compiled: a ModuleList,
    ModuleDict or ParameterList is indexed or iterated over instead.
    """,
    wrong="""
import jitlite
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

net = jitlite.script(Net())
""",
    right="""
import jitlite
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

print(jitlite.script(Net())(torch.ones(2)))
""",
)

MODULE_ATTRIBUTE = ErrorKind(
    CompileError,
    "J0703",
    "attribute of a module that scripts do not have",
    """
    The attributes of a module that scripts see are its parameters, buffers, submodules and the values that have a
    type of TorchScript. A list of modules has to be an nn.ModuleList, a dict of modules an nn.ModuleDict; a value of
    several types, such as a dict of settings, is best taken apart in __init__.
    """,
    wrong="""
import jitlite
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.ReLU(), nn.Tanh()]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

net = jitlite.script(Net())
""",
    right="""
import jitlite
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

print(jitlite.script(Net())(torch.ones(2)))
""",
)

CONTAINER_INDEX = ErrorKind(
    CompileError,
    "J0704",
    "index of a container of modules",
    """
    The container has no module at this index or under this key; or the index is known at run time only and its module
    would have to be a value. Iterate over the container, or annotate the element with an interface.
    """,
    wrong="""
import jitlite
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[2](x)

net = jitlite.script(Net())
""",
    right="""
import jitlite
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[1](x)

print(jitlite.script(Net())(torch.ones(2)))
""",
)

WRONG_HOOK = ErrorKind(
    CompileError,
    "J0705",
    "hook that cannot be compiled",
    """
    A hook of a scripted module is a function with the types of the forward that it belongs to: a pre-hook takes self
    and a tuple of the inputs, a hook also the result. Its name belongs to one function.
    """,
    wrong="""
import jitlite
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x

def hook(self, inputs: tuple[int], result: Tensor) -> Tensor:
    return result + 1

net = Net()
net.register_forward_hook(hook)
net = jitlite.script(net)
""",
    right="""
import jitlite
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x

def hook(self, inputs: tuple[Tensor], result: Tensor) -> Tensor:
    return result + 1

net = Net()
net.register_forward_hook(hook)
print(jitlite.script(net)(torch.ones(2)))
""",
)

WRONG_OVERLOADS = ErrorKind(
    CompileError,
    "J0706",
    "overloads without an implementation or types",
    """
    Declarations marked as overloads have annotations for all parameters, and the method or function that does the
    work follows them under the same name.
    """,
    wrong="""
import jitlite
from torch import nn

class Net(nn.Module):
    @jitlite.overload_method
    def add(self, x: int) -> int:
        pass

    def forward(self, x: int) -> int:
        return self.add(x)

net = jitlite.script(Net())
""",
    right="""
import jitlite
from torch import nn

class Net(nn.Module):
    @jitlite.overload_method
    def add(self, x: int) -> int:
        pass

    def add(self, x):
        return x + x

    def forward(self, x: int) -> int:
        return self.add(x)

print(jitlite.script(Net())(3))
""",
)

UNNAMED_SUBMODULES = ErrorKind(
    CompileError,
    "J0707",
    "submodules that cannot be listed so",
    """
    named_children(), named_modules() and the views of containers (items, keys, values) take no arguments in scripts
    and are iterated over; the compiler unrolls the loop.
    """,
    wrong="""
import jitlite
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.ReLU()})

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers.values(1):
            x = layer(x)
        return x

net = jitlite.script(Net())
""",
    right="""
import jitlite
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.ReLU()})

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers.values():
            x = layer(x)
        return x

print(jitlite.script(Net())(torch.ones(2)))
""",
)
