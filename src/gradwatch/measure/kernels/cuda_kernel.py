"""A CUDA kernel that measures many tensors and counts their histograms in the same pass.

Triton's own histogram suits few bins; with thousands it does not compile in reasonable
time. So this kernel is in CUDA C++, which torch compiles at run time (no compiler is
needed on the machine). It replaces `triton_kernel.partial_summaries` where histograms are due,
with the same tables.

A block of threads reads a chunk once, 16 bytes at a time. It counts by the floats' own
top bits, in several copies of the bins so that threads with similar numbers rarely wait for
each other. Last, each bin that is not empty is added to the counts of the tensor.
"""

from functools import cache
from typing import Any

import torch

THREADS = 512
CHUNK = 1 << 16
COPIES = 4
KEYS = 2048

# The type that an element is read as, and how it becomes a float.
_TYPES = {
    "float32": ("unsigned int", "value = __uint_as_float(bits);"),
    "bfloat16": ("unsigned short", "value = __uint_as_float((unsigned int)bits << 16);"),
    "float16": ("unsigned short", 'asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));'),
    "float8_e5m2": (
        "unsigned char",
        # The upper half of a float16.
        """unsigned short half = (unsigned short)bits << 8;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));""",
    ),
    "float8_e4m3fn": (
        "unsigned char",
        """unsigned int pair;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)bits));
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)(pair & 0xffff)));""",
    ),
}

_SOURCE = """
typedef ELEMENT_TYPE Element;
#define PER (16 / sizeof(Element))
#define STRIDE (KEYS + 8)  // The copies of a bin lie in different banks.

__device__ __forceinline__ float widened(Element bits) {
    float value;
    WIDENING
    return value;
}

template <typename Float>
struct Sums {
    Float total, magnitudes, squares;
    float low, high;
    int zeros;

    __device__ __forceinline__ Sums()
        : total(0), magnitudes(0), squares(0), low(INFINITE), high(-INFINITE), zeros(0) {}

    __device__ __forceinline__ void take(float x, int* bins) {
        total += x;
        magnitudes += fabsf(x);
        squares += x * x;
        low = fminf(low, x);
        high = fmaxf(high, x);
        zeros += x == 0.0f;
        atomicAdd(&bins[__float_as_uint(x + 0.0f) >> 21], 1);  // -0 becomes 0.
    }

    template <typename Other>
    __device__ __forceinline__ void merge(const Sums<Other>& other) {
        total += other.total;
        magnitudes += other.magnitudes;
        squares += other.squares;
        low = fminf(low, other.low);
        high = fmaxf(high, other.high);
        zeros += other.zeros;
    }

    __device__ __forceinline__ void merge_from(int lane) {
        total += __shfl_down_sync(~0u, total, lane);
        magnitudes += __shfl_down_sync(~0u, magnitudes, lane);
        squares += __shfl_down_sync(~0u, squares, lane);
        low = fminf(low, __shfl_down_sync(~0u, low, lane));
        high = fmaxf(high, __shfl_down_sync(~0u, high, lane));
        zeros += __shfl_down_sync(~0u, zeros, lane);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) measured(
    const long long* addresses, const long long* sizes, const long long* owners,
    const long long* starts, double* partials, COUNTER* counts, int first, int chunks) {
    __shared__ int bins[COPIES * STRIDE];
    __shared__ __align__(16) char room[sizeof(Sums<double>) * (THREADS / 32)];
    Sums<double>* of_warps = (Sums<double>*)room;
    const int thread = threadIdx.x;
    for (int i = thread; i < COPIES * STRIDE; i += THREADS) bins[i] = 0;
    __syncthreads();

    const long long chunk = first + (long long)blockIdx.x;
    const long long owner = owners[chunk], start = starts[chunk];
    const Element* x = (const Element*)addresses[owner] + start;
    const long long rest = sizes[owner] - start;
    const int left = rest < CHUNK ? (int)rest : CHUNK;
    int* mine = bins + (thread % COPIES) * STRIDE;
    Sums<float> of_thread;
    int done = 0;
    if (((unsigned long long)x & 15) == 0) {
        const uint4* vectors = (const uint4*)x;
        const int count = left / PER;
        #pragma unroll UNROLL
        for (int i = thread; i < count; i += THREADS) {
            const uint4 vector = __ldcs(vectors + i);
            const Element* several = (const Element*)&vector;
            Sums<float> few;  // First among themselves: long chains of float32 sums round more.
            #pragma unroll
            for (int j = 0; j < PER; ++j) few.take(widened(several[j]), mine);
            of_thread.merge(few);
        }
        done = count * PER;
    }
    for (int i = done + thread; i < left; i += THREADS) of_thread.take(widened(x[i]), mine);

    Sums<double> sums;
    sums.merge(of_thread);
    for (int lane = 16; lane > 0; lane /= 2) sums.merge_from(lane);
    if (thread % 32 == 0) of_warps[thread / 32] = sums;
    __syncthreads();
    if (thread < 32) {
        sums = thread < THREADS / 32 ? of_warps[thread] : Sums<double>();
        for (int lane = 16; lane > 0; lane /= 2) sums.merge_from(lane);
        if (thread == 0) {
            double* column = partials + chunk;
            column[3LL * chunks] = sums.zeros;
            column[4LL * chunks] = sums.total;
            column[5LL * chunks] = sums.magnitudes;
            column[6LL * chunks] = sums.squares;
            column[7LL * chunks] = sums.low;
            column[8LL * chunks] = sums.high;
        }
    }
    for (int key = thread; key < KEYS; key += THREADS) {
        int counted = 0;
        for (int copy = 0; copy < COPIES; ++copy) counted += bins[copy * STRIDE + key];
        if (counted) atomicAdd(counts + owner * KEYS + key, (COUNTER)counted);
    }
}
"""


def reads(dtype: Any) -> bool:
    """Whether the kernel can measure elements of that type on this machine."""
    name = str(dtype).removeprefix("torch.")
    return name in _TYPES and kernel(dtype, torch.int32, torch.cuda.current_device()) is not None


@cache
def kernel(dtype: Any, counter: Any, device: int) -> Any:
    """The kernel for elements of that type, compiled; None if that cannot be done."""
    # Not public in torch, so it may change: then histograms are counted in another way.
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None or torch.version.hip:
        return None
    element, widening = _TYPES[str(dtype).removeprefix("torch.")]
    if dtype is torch.float8_e4m3fn and torch.cuda.get_device_capability(device) < (8, 9):
        return None
    constants = {
        "ELEMENT_TYPE": element,
        "WIDENING": widening,
        "COUNTER": "unsigned int" if counter is torch.int32 else "unsigned long long",
        "INFINITE": "__int_as_float(0x7f800000)",
        "THREADS": str(THREADS),
        "COPIES": str(COPIES),
        "CHUNK": str(CHUNK),
        "KEYS": str(KEYS),
        "UNROLL": "4",
    }
    source = _SOURCE
    for name, value in constants.items():
        source = source.replace(name, value)
    try:
        return compile_kernel(source, "measured")
    except Exception:
        return None
