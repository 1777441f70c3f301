"""Look inside: the tree, the graph as data, its text read back, networkx, the bytecode.

python examples/inspect_ir.py
"""

from collections import Counter

import networkx as nx
from torch import Tensor

import jitlite
from jitlite.ir.analysis import to_dot, to_networkx


def smooth(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        left, right = x.roll(1), x.roll(-1)
        x = (left + x + right) / 3
        if bool(x.std() < 0.1):
            break
    return x


def main() -> int:
    scripted = jitlite.script(smooth)
    print(scripted.tree)
    graph = scripted.graph
    print(graph)
    kinds = Counter(node.kind for node in graph.all_nodes())
    print("most frequent:", kinds.most_common(4))
    text = graph.to_text(ranges=False)
    print("reads back:", jitlite.ir.parse(text).to_text(ranges=False) == text)
    flow = to_networkx(graph)
    print("data flow:", flow.number_of_nodes(), "nodes,", flow.number_of_edges(), "edges,",
          nx.number_weakly_connected_components(flow), "component(s)")  # fmt: skip
    print("Graphviz:", to_dot(graph).splitlines()[0], "...")
    print(scripted.stages["bytecode"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
