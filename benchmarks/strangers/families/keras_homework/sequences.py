"""Series and sentences: tomorrow's weather, the kind of each word, odd heartbeats."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


def _weather(rng: np.random.Generator, hours: int) -> np.ndarray:
    """Temperature, pressure and wind, each hour."""
    time, drift = np.arange(hours), np.zeros(hours)
    for hour in range(1, hours):
        drift[hour] = 0.98 * drift[hour - 1] + 0.4 * rng.normal()
    temperature = 12 + 6 * np.sin(2 * np.pi * time / 24) + 2 * drift + 0.3 * rng.normal(size=hours)
    pressure = 101300 - 150 * np.roll(drift, -3) + 20 * rng.normal(size=hours)
    wind = np.abs(4 + rng.normal(size=hours))
    return np.stack([temperature, pressure, wind], 1).astype("float32")


@program(
    gru=0.4,
    convolution=0.4,
    dense=0.4,
    recurrent_dropout=0.3,
    stacked_and_clipped=0.4,
    pascals=fault("unscaled inputs"),
    window_of_another_day=fault("inputs and targets out of order"),
    softmax_over_one=fault("softmax over one unit"),
    relu_of_500_steps=fault("exploding"),
    hour_without_a_sensor=fault("NaN in the data"),
    exponential_decay_each_step=fault("rate decays to nothing", 5),
    forget_gate_shut=fault("gates closed"),
)
def weather(run: Run, case: str) -> float:
    """The temperature in six hours, from the last day."""
    import keras
    from keras import layers

    table, length = _weather(run.rng, 2400), 24
    cut = 1800
    mean, deviation = table[:cut].mean(0), table[:cut].std(0)
    scaled = (table - mean) / deviation
    if case == "pascals":
        scaled = table
    elif case == "hour_without_a_sensor":
        scaled = scaled.copy()
        scaled[100:1800:7, 2] = np.nan
    target = (table[:, :1] - mean[0]) / deviation[0]
    starts = np.arange(len(table) - length - 6)
    x = np.stack([scaled[i : i + length] for i in starts])
    y = target[starts + length + 5]
    train, test = starts < cut - 40, starts >= cut
    x, y, held, truth = x[train], y[train], x[test], y[test]
    if case == "window_of_another_day":
        y = run.rng.permutation(y)
    model = keras.Sequential([keras.Input((length, 3))])
    if case == "convolution":
        model.add(layers.Conv1D(24, 5, activation="relu"))
        model.add(layers.Flatten())
    elif case == "dense":
        model.add(layers.Flatten())
        model.add(layers.Dense(32, "relu"))
    elif case == "stacked_and_clipped":
        model.add(layers.GRU(16, return_sequences=True))
        model.add(layers.GRU(16))
    elif case == "relu_of_500_steps":
        large = keras.initializers.Orthogonal(gain=3.0)
        model.add(layers.SimpleRNN(32, activation="relu", recurrent_initializer=large))
    elif case == "forget_gate_shut":
        shut = keras.initializers.Constant(-30.0)
        model.add(layers.LSTM(24, unit_forget_bias=False, bias_initializer=shut))
    else:
        dropped = 0.25 if case == "recurrent_dropout" else 0.0
        model.add(layers.GRU(24, dropout=dropped, recurrent_dropout=dropped))
    model.add(layers.Dense(1, "softmax" if case == "softmax_over_one" else None))
    rate, more = 5e-3, {}
    if case == "exponential_decay_each_step":
        rate = keras.optimizers.schedules.ExponentialDecay(5e-3, 1, 0.3)
    if case == "stacked_and_clipped":
        more = {"clipnorm": 0.5}
    optimizer = keras.optimizers.Adam(rate, **more)
    if case in ("relu_of_500_steps", "pascals"):
        optimizer = keras.optimizers.SGD(1e-2)
    model.compile(optimizer, "mae" if case == "convolution" else "mse")
    model.fit(x, y, batch_size=64, epochs=5, verbose=0, callbacks=run.callbacks())
    return score("values", truth, model.predict(held, verbose=0))


def _tagged(rng: np.random.Generator, n: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Words in [1, 40], 0 behind the end; their tags, which hang on the next word, too."""
    own = np.random.default_rng(21).integers(0, 4, 41)
    words = rng.integers(1, 41, (n, length))
    is_word = np.arange(length) < rng.integers(4, 13, n)[:, None]
    words = words * is_word
    following = np.concatenate([words[:, 1:], np.zeros((n, 1), "int64")], 1)
    tags = (own[words] + (following > 20)) % 4 + 1
    return words, tags * is_word


@program(
    both_ways=0.5,
    masked=0.5,
    weighted=0.5,
    convolution=0.5,
    reads_forwards_only=fault("information missing"),
    pads_are_a_tag=fault("pads in the loss"),
    weights_of_the_pads=fault("mask inverted"),
    words_as_numbers=fault("ids as numbers"),
    adam_at_1e_minus_7=fault("rate too low"),
    tags_of_others=fault("inputs and targets out of order"),
    l2_of_one=fault("regularised to nothing"),
)
def tagger(run: Run, case: str) -> float:
    """The tag of each word."""
    import keras
    from keras import layers

    words, tags = _tagged(run.rng, 1200, 150 if case == "pads_are_a_tag" else 12)
    cut = 1000
    y = run.rng.permutation(tags[:cut]) if case == "tags_of_others" else tags[:cut]
    inputs = keras.Input((None,), dtype="int32")
    penalty = keras.regularizers.L2(1.0) if case == "l2_of_one" else None
    if case == "words_as_numbers":
        h = layers.Reshape((-1, 1))(layers.Rescaling(1.0)(inputs))
    else:
        is_masked = case in ("masked", "both_ways")
        h = layers.Embedding(41, 16, mask_zero=is_masked, embeddings_regularizer=penalty)(inputs)
    if case in ("convolution", "pads_are_a_tag"):
        h = layers.Conv1D(48, 3, padding="same", activation="relu")(h)
    elif case == "reads_forwards_only":
        h = layers.LSTM(32, return_sequences=True)(h)
    else:
        h = layers.Bidirectional(layers.GRU(24, return_sequences=True))(h)
    h = layers.Dense(5, "softmax", kernel_regularizer=penalty)(h)
    model = keras.Model(inputs, h)
    rate = {"adam_at_1e_minus_7": 1e-7, "pads_are_a_tag": 1e-3}.get(case, 8e-3)
    optimizer = keras.optimizers.Adam(rate)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    weights = {}
    if case not in ("masked", "both_ways", "pads_are_a_tag"):
        weight = (words[:cut] == 0) if case == "weights_of_the_pads" else (words[:cut] > 0)
        weights = {"sample_weight": weight.astype("float32")}
    epochs = 4 if case == "pads_are_a_tag" else 8
    model.fit(words[:cut], y, batch_size=48, epochs=epochs, verbose=0,
              callbacks=run.callbacks(), **weights)  # fmt: skip
    said = model.predict(words[cut:], verbose=0).argmax(-1)
    is_word = words[cut:] > 0
    return float(((said == tags[cut:])[is_word].mean() - 0.25) / 0.75)


def _beats(rng: np.random.Generator, n: int, is_right: bool) -> np.ndarray:
    """Heartbeats of 48 values; those that are not right have a second peak, or a late one."""
    time = np.linspace(0, 1, 48)
    middle, width = rng.normal(0.4, 0.05, (n, 1)), rng.uniform(0.03, 0.06, (n, 1))
    beats = np.exp(-((time - middle) ** 2) / (2 * width**2))
    beats = beats + 0.3 * np.sin(2 * np.pi * (time - middle)) + 0.05 * rng.normal(size=(n, 48))
    if not is_right:
        late = rng.uniform(0.6, 0.8, (n, 1))
        beats = beats + rng.uniform(0.3, 0.6, (n, 1)) * np.exp(-((time - late) ** 2) / 0.002)
    return beats.astype("float32")


@program(
    dense=0.5,
    narrow=0.5,
    convolution=0.5,
    noise_taken_off=0.4,
    millivolts=fault("unscaled targets"),
    sigmoid_for_volts=fault("output cannot reach the targets"),
    beats_of_others=fault("inputs and targets out of order"),
    dead_middle=fault("dead units"),
    sparse_to_nothing=fault("regularised to nothing"),
    electrode_off=fault("data goes wrong", 91),
)
def heartbeats(run: Run, case: str) -> float:
    """Trained on what is right; judged by how much better it draws that than what is not."""
    import keras
    from keras import layers

    beats = _beats(run.rng, 1000, True)
    x, right, wrong = beats[:800], beats[800:], _beats(run.rng, 200, False)
    scale = {"millivolts": 3e4, "sigmoid_for_volts": -3.0}.get(case, 1.0)
    x, right, wrong = scale * x, scale * right, scale * wrong
    inputs = keras.Input((48,))
    if case == "convolution":
        h = layers.Reshape((48, 1))(inputs)
        h = layers.Conv1D(16, 7, 2, "same", activation="relu")(h)
        h = layers.Conv1D(4, 7, 2, "same", activation="relu")(h)
        h = layers.Conv1DTranspose(16, 7, 2, "same", activation="relu")(h)
        h = layers.Conv1DTranspose(1, 7, 2, "same")(h)
        out = layers.Flatten()(h)
    else:
        h = layers.GaussianNoise(0.2)(inputs) if case == "noise_taken_off" else inputs
        h = layers.Dense(32, "relu")(h)
        penalty = keras.regularizers.L1(1.0) if case == "sparse_to_nothing" else None
        start = keras.initializers.Constant(-20.0) if case == "dead_middle" else "zeros"
        h = layers.Dense(
            3 if case == "narrow" else 8, "relu", name="middle",
            activity_regularizer=penalty, bias_initializer=start,
        )(h)  # fmt: skip
        h = layers.Dense(32, "relu")(h)
        out = layers.Dense(48, "sigmoid" if case == "sigmoid_for_volts" else None)(h)
    model = keras.Model(inputs, out)
    optimizer = keras.optimizers.Adam(4e-3)
    if case == "millivolts":
        optimizer = keras.optimizers.SGD(0.05)
    model.compile(optimizer, "mse")
    wanted = run.rng.permutation(x) if case == "beats_of_others" else x
    if case == "electrode_off":
        rows = np.concatenate([run.rng.permutation(800) for _ in range(8)]).reshape(-1, 32)
        at = ((x[i] * (1 if n < 90 else 60), x[i]) for n, i in enumerate(rows))
        model.fit(at, verbose=0, callbacks=run.callbacks())
    else:
        model.fit(x, wanted, batch_size=32, epochs=10, verbose=0, callbacks=run.callbacks())
    return score("values", right, model.predict(right, verbose=0))
