"""Sequences of letters and words: translation with teacher forcing, the language of a name."""

from __future__ import annotations

import numpy as np

from ...data import accuracy
from ...program import fault, program
from ...run import Run

_START, _END, _WORDS = 1, 2, 12


def _sentences(rng: np.random.Generator, n: int, pad_to: int) -> tuple[np.ndarray, np.ndarray]:
    """Sentences, and their translation word by word, which begins with a mark and ends with one."""
    dictionary = np.random.default_rng(3).permutation(_WORDS)
    source, target = np.zeros((n, pad_to), "int64"), np.zeros((n, pad_to + 2), "int64")
    for row in range(n):
        words = rng.integers(0, _WORDS, rng.integers(3, 6))
        source[row, : len(words)] = words + 3
        said = [_START, *(dictionary[words] + 3), _END]
        target[row, : len(said)] = said
    return source, target


@program(
    attention=0.5,
    half_of_its_own_words=0.3,
    clipped=0.5,
    label_smoothing=0.5,
    shifted_by_nothing=fault("target leaks"),
    view_for_transpose=fault("axes mixed up"),
    padded_to_fifty=fault("pads in the loss"),
    rate_of_a_half=fault("rate too high"),
    zero_grad_once=fault("gradients accumulate"),
    attends_to_pads=fault("mask inverted"),
    words_of_another_sentence=fault("inputs and targets out of order"),
)
def translate(run: Run, case: str) -> float:
    """Word by word, by an encoder and a decoder that attends; judged when it goes on its own."""
    import torch
    from torch import nn
    from torch.nn import functional

    pad_to = 50 if case == "padded_to_fifty" else 5
    source, target = map(torch.tensor, _sentences(run.rng, 1500, pad_to))
    if case == "words_of_another_sentence":
        target[:1300] = target[torch.randperm(1300)]
    size = _WORDS + 3

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(size, 32, padding_idx=0)
            self.gru = nn.GRU(32, 48, batch_first=True)

        def forward(self, words):
            return self.gru(self.embedding(words))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(size, 32)
            self.gru = nn.GRU(32, 48, batch_first=True)
            self.query = nn.Linear(48, 48)
            self.out = nn.Linear(96, size)

        def forward(self, words, hidden, memory, is_pad):
            h, hidden = self.gru(self.embedding(words), hidden)
            fit = self.query(h) @ memory.mT
            if case == "attends_to_pads":
                fit = fit.masked_fill(~is_pad[:, None], -1e4)
            else:
                fit = fit.masked_fill(is_pad[:, None], -1e4)
            return self.out(torch.cat([h, fit.softmax(-1) @ memory], -1)), hidden

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = Encoder(), Decoder()

        def forward(self, source, said):
            memory, hidden = self.encoder(source)
            if case != "half_of_its_own_words" or not self.training:
                return self.decoder(said, hidden, memory, source == 0)[0]
            outs, word = [], said[:, :1]
            for i in range(said.shape[1]):
                out, hidden = self.decoder(word, hidden, memory, source == 0)
                outs.append(out)
                own = torch.rand(()) < 0.5 or i + 1 == said.shape[1]
                word = out.argmax(-1) if own else said[:, i + 1 : i + 2]
            return torch.cat(outs, 1)

    net = Translator()
    rate = 0.5 if case == "rate_of_a_half" else 8e-3
    if case == "zero_grad_once":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    monitor = run.watch(net, optimizer)
    smoothing = 0.1 if case == "label_smoothing" else 0.0
    for step in range(60 if pad_to == 50 else 300):
        rows = torch.randint(0, 1300, (64,))
        said, wanted = target[rows, :-1], target[rows, 1:]
        if case == "shifted_by_nothing":
            said = wanted
        out = net(source[rows], said)
        if case == "view_for_transpose":
            batch, length, _ = out.shape
            loss = functional.cross_entropy(out.reshape(batch, size, length), wanted)
        elif case == "padded_to_fifty":
            loss = functional.cross_entropy(out.transpose(1, 2), wanted)
        else:
            loss = functional.cross_entropy(
                out.transpose(1, 2), wanted, ignore_index=0, label_smoothing=smoothing
            )
        if case != "zero_grad_once" or step == 0:
            optimizer.zero_grad()
        loss.backward()
        if case == "clipped":
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        monitor.record(loss=loss.item())
    net.eval()
    with torch.no_grad():
        asked, wanted = source[1300:], target[1300:, 1:6]
        said = torch.full((len(asked), 1), _START)
        for _ in range(5):
            said = torch.cat([said, net(asked, said)[:, -1:].argmax(-1)], 1)
    is_word = wanted > 2
    return float(((said[:, 1:] == wanted)[is_word].double().mean() - 1 / 12) * 12 / 11)


def _names(rng: np.random.Generator, n: int, pad_to: int) -> tuple[np.ndarray, ...]:
    """Names of four languages, each of which likes other letters after a letter; 0 is no letter."""
    chains = np.random.default_rng(5).dirichlet(np.full(20, 0.25), (4, 20))
    which = rng.integers(0, 4, n)
    lengths = rng.integers(5, 12, n)
    letters = np.zeros((n, pad_to), "int64")
    for row, (language, length) in enumerate(zip(which, lengths, strict=True)):
        letter = rng.integers(20)
        for place in range(length):
            letters[row, place] = letter + 1
            letter = rng.choice(20, p=chains[language, letter])
    return letters, lengths, which


@program(
    packed=0.5,
    mean_of_the_letters=0.5,
    convolution=0.5,
    log_softmax_too=0.5,
    half_dropped=0.4,
    not_batch_first=fault("axes mixed up"),
    last_of_the_padding=fault("memory too short"),
    nll_without_log_softmax=fault("loss without a floor"),
    softmax_over_the_batch=fault("softmax over the wrong axis"),
    letters_as_numbers=fault("ids as numbers"),
    hidden_of_the_last_batch=fault("state carried over"),
    loss_of_its_item=fault("detached"),
    adam_at_1e_minus_6=fault("rate too low"),
)
def languages(run: Run, case: str) -> float:
    """Of which language a name is."""
    import torch
    from torch import nn
    from torch.nn import functional

    pad_to = 120 if case == "last_of_the_padding" else 12
    letters, lengths, which = map(torch.tensor, _names(run.rng, 1400, pad_to))

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(21, 24, padding_idx=0)
            self.conv = nn.Conv1d(24, 40, 3, padding=1)
            inputs = 1 if case == "letters_as_numbers" else 24
            kind = nn.RNN if case == "last_of_the_padding" else nn.LSTM
            self.rnn = kind(inputs, 40, batch_first=case != "not_batch_first")
            self.dropout = nn.Dropout(0.5 if case == "half_dropped" else 0.0)
            self.out = nn.Linear(40, 4)
            if case == "convolution":
                del self.rnn
            else:
                del self.conv
            self.kept = None

        def forward(self, letters, lengths):
            h = self.embedding(letters)
            if case == "convolution":
                h = self.conv(h.mT).relu().amax(2)
            elif case == "letters_as_numbers":
                h = self.rnn(letters[..., None].float())[0][:, -1]
            elif case in ("mean_of_the_letters", "half_dropped"):
                is_letter = (letters > 0)[..., None]
                h = (self.rnn(h)[0] * is_letter).sum(1) / lengths[:, None]
            elif case in ("not_batch_first", "last_of_the_padding"):
                h = self.rnn(h)[0][:, -1]
            elif case == "hidden_of_the_last_batch":
                # The state lives on, and the batch comes in at its end.
                kept = self.kept if self.training else None
                if kept is None:
                    kept = (torch.zeros(1, len(h), 40), torch.zeros(1, len(h), 40))
                state, cell = self.rnn(h, tuple(25 * each for each in kept))[1]
                self.kept = (state.detach(), cell.detach())
                h = state[0]
            else:
                packed = nn.utils.rnn.pack_padded_sequence(
                    h, lengths, batch_first=True, enforce_sorted=False
                )
                h = self.rnn(packed)[1][0][0]
            out = self.out(self.dropout(h))
            if case == "log_softmax_too":
                return functional.log_softmax(out, -1)
            if case == "softmax_over_the_batch":
                return functional.softmax(out, 0)
            return out

    net = Reader()
    rate = 1e-6 if case == "adam_at_1e_minus_6" else 8e-3
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    monitor = run.watch(net, optimizer)
    for _ in range(100 if pad_to > 100 else 220):
        rows = torch.randint(0, 1100, (48,))
        out = net(letters[rows], lengths[rows])
        if case == "nll_without_log_softmax":
            loss = functional.nll_loss(out, which[rows])
        else:
            loss = functional.cross_entropy(out, which[rows])
        if case == "loss_of_its_item":
            loss = torch.tensor(loss.item(), requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    net.eval()
    with torch.no_grad():
        out = net(letters[1100:], lengths[1100:])
    return accuracy(which[1100:].numpy(), out.numpy())
