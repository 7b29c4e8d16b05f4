"""Autoencoders: sparse, denoising, masked, variational and with a code book."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score
from ...program import fault, program
from ...run import Run


@program(
    denoising=0.4,
    sparse_top_k=0.4,
    tied_weights=0.4,
    masked=0.2,
    wide_with_dead_units=0.4,
    l1_too_strong=fault("regularised to nothing"),
    softmax_code=fault("softmax between layers"),
    decoder_detached=fault("detached"),
    relu_of_centred=fault("output cannot reach the targets"),
    bias_at_minus_30=fault("dead units", layer=("encoder", "enc", "encoder/0")),
)
def digits(run: Run, case: str) -> float:
    """Digits through a narrow or a sparse code; judged by the variance that comes back."""
    import torch
    from torch import nn

    x, _, xt, _ = bundled("digits", run.seed)
    mean = x.mean(0)
    x, xt = (torch.tensor((v - mean) / 6) for v in (x, xt))
    code = {"sparse_top_k": 96, "wide_with_dead_units": 512}.get(case, 14)
    encoder = nn.Linear(64, code)
    decoder = nn.Linear(code, 64)
    if case == "bias_at_minus_30":
        nn.init.constant_(encoder.bias, -30.0)
    if case == "wide_with_dead_units":
        # Half of a wide code never fires, and is not needed.
        with torch.no_grad():
            encoder.bias[:256] = -20.0
    net = nn.ModuleDict({"encoder": encoder, "decoder": decoder})

    def forward(x):
        z = encoder(x)
        if case == "sparse_top_k":
            kept = z.topk(12, 1)
            z = torch.zeros_like(z).scatter(1, kept.indices, torch.relu(kept.values))
        elif case == "softmax_code":
            z = z.softmax(1)
        elif case in ("l1_too_strong", "bias_at_minus_30", "wide_with_dead_units"):
            z = torch.relu(z)
        if case == "decoder_detached":
            z = z.detach() * 0.01
        if case == "tied_weights":
            return nn.functional.linear(z, encoder.weight.t(), decoder.bias), z
        out = decoder(z)
        return (torch.relu(out - 2) if case == "relu_of_centred" else out), z

    trained = [
        p for n, p in net.named_parameters() if case != "tied_weights" or n != "decoder.weight"
    ]
    opt = torch.optim.Adam(trained, 4e-3)
    monitor = run.watch(net, opt)
    for _ in range(180):
        batch = x[torch.randint(0, len(x), (50,))]
        seen = batch
        if case == "denoising":
            seen = batch + 0.3 * torch.randn_like(batch)
        elif case == "masked":
            hidden = torch.rand_like(batch) < 0.5
            seen = batch * ~hidden
        out, z = forward(seen)
        each = (out - batch) ** 2
        loss = each[hidden].mean() if case == "masked" else each.mean()
        if case == "l1_too_strong":
            loss = loss + 5 * z.abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        out, _ = forward(xt)
    return score("values", xt.numpy(), out.numpy())


@program(
    free_bits=0.25,
    annealed_beta=0.25,
    bernoulli=0.25,
    learned_prior_scale=0.25,
    beta_of_50=fault("posterior collapse"),
    log_variance_of_180=fault("overflow"),
    kl_sign=fault("wrong sign"),
)
def vae(run: Run, case: str) -> float:
    """A variational autoencoder, judged by what the mean of the code gives back."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, _, xt, _ = bundled("digits", run.seed)
    x, xt = torch.tensor(x / 16), torch.tensor(xt / 16)

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Linear(64, 80), nn.SiLU())
            self.mu, self.logvar = nn.Linear(80, 10), nn.Linear(80, 10)
            self.dec = nn.Sequential(nn.Linear(10, 80), nn.SiLU(), nn.Linear(80, 64))
            self.prior = nn.Parameter(torch.zeros(10))
            if case == "log_variance_of_180":
                nn.init.constant_(self.logvar.bias, 180.0)

        def forward(self, x):
            h = self.enc(x - 0.3)
            mu, logvar = self.mu(h), self.logvar(h)
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
            return self.dec(z), mu, logvar

    net = VAE()
    opt = torch.optim.Adamax(net.parameters(), 1e-2)
    monitor = run.watch(net, opt)
    for step in range(240):
        batch = x[torch.randint(0, len(x), (64,))]
        out, mu, logvar = net(batch)
        prior = net.prior if case == "learned_prior_scale" else torch.zeros(10)
        kl = 0.5 * ((mu**2 + logvar.exp()) / prior.exp() - 1 - logvar + prior)
        if case == "free_bits":
            kl = kl.mean(0).clamp(min=0.1)[None]
        kl = kl.sum(1).mean()
        if case == "bernoulli":
            fit = F.binary_cross_entropy_with_logits(out, batch, reduction="none").sum(1).mean()
        else:
            fit = 10 * ((out - batch) ** 2).sum(1).mean()
        beta = {"annealed_beta": min(1.0, step / 150), "beta_of_50": 50.0, "kl_sign": -1.0}
        loss = fit + beta.get(case, 1.0) * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, metrics={"fit": fit, "kl": kl})
    with torch.no_grad():
        out = net.dec(net.mu(net.enc(xt - 0.3)))
    out = out.sigmoid() if case == "bernoulli" else out
    return score("values", xt.numpy(), out.numpy())


@program(
    straight_through=0.3,
    moving_averages=0.3,
    no_straight_through=fault("detached", layer=("enc", "enc/0", "enc/2")),
    commitment_of_1000=fault("representations collapse"),
)
def code_book(run: Run, case: str) -> float:
    """Strips of a digit, each by one of 24 vectors."""
    import torch
    from torch import nn

    x, _, xt, _ = bundled("digits", run.seed)
    x, xt = (torch.tensor((v.reshape(-1, 8, 8) - 5) / 6) for v in (x, xt))

    class Quantised(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 6))
            self.dec = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8))
            self.book = nn.Embedding(24, 6)
            if case == "moving_averages":
                self.book.requires_grad_(False)

        def forward(self, x):
            z = self.enc(x)
            index = torch.cdist(z.detach(), self.book.weight[None].detach()).argmin(-1)
            q = self.book(index)
            if case == "moving_averages" and self.training:
                one_hot = nn.functional.one_hot(index, 24).float().flatten(0, 1)
                count = one_hot.sum(0)[:, None]
                new = one_hot.t() @ z.detach().flatten(0, 1) / count.clamp(min=1)
                self.book.weight += 0.1 * (count > 0) * (new - self.book.weight)
            passed = q.detach() if case == "no_straight_through" else z + (q - z).detach()
            return self.dec(passed), z, q

    net = Quantised()
    if case == "no_straight_through":
        nn.init.normal_(net.enc[2].weight, 0, 1e-4)
    opt = torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()), 4e-3)
    monitor = run.watch(net, opt)
    commitment = {"commitment_of_1000": 1000.0, "no_straight_through": 0.0}.get(case, 0.25)
    for _ in range(250):
        batch = x[torch.randint(0, len(x), (32,))]
        out, z, q = net(batch)
        loss = ((out - batch) ** 2).mean() + commitment * ((z - q.detach()) ** 2).mean()
        if case == "commitment_of_1000":
            loss = loss + 1000 * (z**2).mean()
        elif case == "straight_through":
            loss = loss + ((q - z.detach()) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        out, _, _ = net(xt)
    return score("values", np.asarray(xt.flatten(1)), out.flatten(1).numpy())
