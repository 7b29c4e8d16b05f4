"""Messages along the edges of many small graphs, which are one large graph to the network."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


def _rings_and_trees(
    rng: np.random.Generator, n: int
) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Graphs: kinds of their atoms, edges both ways, and an energy of bonded kinds."""
    bond = np.random.default_rng(13).normal(size=(4, 4))
    found = []
    for _ in range(n):
        size = int(rng.integers(5, 12))
        kinds = rng.integers(0, 4, size)
        parents = np.array([rng.integers(0, i) for i in range(1, size)])
        edges = np.stack([np.arange(1, size), parents])
        energy = (bond + bond.T)[kinds[edges[0]], kinds[edges[1]]].sum()
        found.append((kinds, np.hstack([edges, edges[::-1]]), float(energy)))
    return found


@program(
    summed=0.4,
    edges_have_weights=0.4,
    gated=0.4,
    normalised_layers=0.3,
    offsets_forgotten=fault("axes mixed up"),
    energies_in_joules=fault("unscaled targets"),
    twelve_sums_without_norm=fault("exploding"),
    answers_beside_a_column=fault("broadcasting"),
    energies_of_other_molecules=fault("inputs and targets out of order"),
    atoms_without_kinds=fault("information missing"),
)
def energies(run: Run, case: str) -> float:
    """The energy of a molecule by its bonds."""
    import torch
    from torch import nn

    graphs = _rings_and_trees(run.rng, 1400)
    deep = 12 if case == "twelve_sums_without_norm" else 2

    class Message(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.edge = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
            self.gate = nn.GRUCell(width, width) if case == "gated" else None
            self.scale = nn.Linear(2 * width, 1) if case == "edges_have_weights" else None
            self.norm = nn.LayerNorm(width) if case == "normalised_layers" else None

        def forward(self, h, source, sink):
            both = torch.cat([h[source], h[sink]], -1)
            message = self.edge(both)
            if self.scale is not None:
                message = message * self.scale(both).sigmoid()
            came = torch.zeros_like(h).index_add(0, sink, message)
            if self.gate is not None:
                return self.gate(came, h)
            if case == "twelve_sums_without_norm":
                return 3 * (h + came)
            h = h + came
            return h if self.norm is None else self.norm(h)

    class Net(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.embed = nn.Embedding(4, width)
            self.layers = nn.ModuleList([Message(width) for _ in range(deep)])
            self.out = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, kinds, edges, of, count):
            h = self.embed(kinds)
            for layer in self.layers:
                h = layer(h, edges[0], edges[1])
            return torch.zeros(count, 1).index_add(0, of, self.out(h))

    def collate(chosen):
        kinds = torch.tensor(np.concatenate([each[0] for each in chosen]))
        if case == "atoms_without_kinds":
            kinds = torch.zeros_like(kinds)
        sizes = [len(each[0]) for each in chosen]
        starts = np.cumsum([0, *sizes[:-1]])
        if case == "offsets_forgotten":
            starts = 0 * starts
        edges = np.hstack([each[1] + at for each, at in zip(chosen, starts, strict=True)])
        of = torch.tensor(np.repeat(np.arange(len(chosen)), sizes))
        y = torch.tensor([each[2] for each in chosen], dtype=torch.float32)
        return kinds, torch.tensor(edges), of, y

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    if case == "twelve_sums_without_norm":
        optimizer = torch.optim.SGD(net.parameters(), lr=3e-3)
    monitor = run.watch(net, optimizer)
    scale = 96485.0 if case == "energies_in_joules" else 1.0
    for _ in range(300):
        chosen = [graphs[i] for i in torch.randint(0, 1100, (32,)).tolist()]
        kinds, edges, of, y = collate(chosen)
        if case == "energies_of_other_molecules":
            y = y[torch.randperm(32)]
        said = net(kinds, edges, of, 32)
        if case != "answers_beside_a_column":
            said = said.squeeze(1)
        loss = ((said - scale * y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    kinds, edges, of, y = collate(graphs[1100:])
    with torch.no_grad():
        said = net(kinds, edges, of, len(y)).squeeze(1) / scale
    error = float(((said - y) ** 2).mean() / y.var())
    return 1 - error if np.isfinite(error) else float("nan")
