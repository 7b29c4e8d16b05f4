"""Pictures of tensors: where things are, what colour they have, and valid PNG."""

import io

import numpy as np
import pytest
from PIL import Image

from gradwatch.watches.probes.picture import GAP, NEGATIVE, NONFINITE, POSITIVE, ZERO, picture
from gradwatch.watches.probes.png import encode

rng = np.random.default_rng(0)


def colours(image):
    return {tuple(map(int, c)) for c in image.reshape(-1, 3)}


def test_a_png_reads_back_as_it_was_drawn():
    image = rng.integers(0, 256, (17, 5, 3)).astype(np.uint8)
    read = Image.open(io.BytesIO(encode(image)))
    assert read.format == "PNG"
    np.testing.assert_array_equal(np.asarray(read), image)


@pytest.mark.parametrize("image", [np.zeros((2, 2, 4), np.uint8), np.zeros((2, 2, 3))])
def test_what_is_no_rgb_image_is_refused(image):
    with pytest.raises(ValueError, match="uint8 of shape"):
        encode(image)


def test_signs_zero_and_non_finite_elements_have_their_colours():
    image = picture(np.array([[-2.0, 0.0], [2.0, np.nan]]))
    half = image.shape[0] // 2
    corners = [image[0, 0], image[0, half], image[half, 0], image[half, half]]
    assert [tuple(map(int, c)) for c in corners] == [NEGATIVE, ZERO, POSITIVE, NONFINITE]


def test_half_the_magnitude_has_half_the_colour():
    image = picture(np.array([[4.0, 2.0]]))
    expected = np.rint((np.array(ZERO) + np.array(POSITIVE)) / 2)
    np.testing.assert_array_equal(image[0, -1], expected)


def test_a_convolution_kernel_has_a_row_for_each_filter_and_a_column_for_each_channel():
    kernel = rng.normal(size=(3, 2, 4, 5))  # height, width, inputs, outputs
    image = picture(kernel, owners=["Functional", "Conv2D"])
    scale = image.shape[0] // (5 * 4 + 1)
    assert image.shape == ((5 * 4 + 1) * scale, (4 * 3 + 1) * scale, 3)
    for o in range(5):
        strongest = np.abs(kernel[..., o]).max()
        for i in range(4):
            top, left = (o * 4 + 1) * scale, (i * 3 + 1) * scale
            tile = image[top : top + 3 * scale : scale, left : left + 2 * scale : scale]
            share = kernel[:, :, i, o, None] / strongest
            end = np.where(share < 0, NEGATIVE, POSITIVE)
            expected = np.rint(np.array(ZERO) + np.abs(share) * (end - np.array(ZERO)))
            np.testing.assert_array_equal(tile, expected)
    assert tuple(map(int, image[0, 0])) == GAP


def test_filters_of_one_channel_fill_a_square():
    kernel = np.zeros((3, 3, 1, 10))
    kernel[..., 6] = 1.0
    image = picture(kernel, owners=["Conv2D"])
    scale = image.shape[1] // (4 * 4 + 1)
    assert image.shape == ((3 * 4 + 1) * scale, (4 * 4 + 1) * scale, 3)
    row, column = divmod(6, 4)
    inside = image[(row * 4 + 2) * scale, (column * 4 + 2) * scale]
    assert tuple(map(int, inside)) == POSITIVE


@pytest.mark.parametrize("shape", [(5, 3, 7), (3, 3, 100, 200), (2, 3, 3, 4, 6)])
def test_kernels_of_any_rank_and_number_of_channels_are_drawn(shape):
    image = picture(rng.normal(size=shape), owners=["Conv"], max_outputs=8)
    assert image.ndim == 3
    assert max(image.shape) <= 1024
    outputs = min(shape[-1], 8)
    rows_of_gap = (image == np.array(GAP, np.uint8)).all(axis=(1, 2))
    stripes = np.flatnonzero(np.diff(rows_of_gap.astype(int)) == 1)
    assert len(stripes) == outputs


def test_a_large_matrix_is_shrunk_and_keeps_its_strongest_elements():
    matrix = np.zeros((5000, 3))
    matrix[4321, 1] = -7.0
    matrix[17, 2] = np.inf
    image = picture(matrix)
    assert max(image.shape) <= 1024
    assert NEGATIVE in colours(image)
    assert NONFINITE in colours(image)


@pytest.mark.parametrize(
    "x", [np.float32(3), np.zeros(4), np.zeros((0, 3)), np.full((2, 2), 5e-324)]
)
def test_odd_tensors_are_drawn(x):
    image = picture(x)
    assert image.dtype == np.uint8
    assert encode(image)
