// Sixteen floats at once: as many instructions as the processor needs for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// Compiles a function for several kinds of processor; the best is chosen when the library is loaded.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define XUANZANG_VECTORIZED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define XUANZANG_VECTORIZED
#endif
// Parts of such functions: they become part of each of its versions.
#define XUANZANG_INLINE inline __attribute__((always_inline))

namespace xuanzang {

constexpr size_t kLanes = 16;

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef float Quad __attribute__((vector_size(4 * sizeof(float))));
typedef int32_t IntLanes __attribute__((vector_size(kLanes * sizeof(int32_t))));

// Calls use(at, lanes) for each run of 16, or of what is left at the end, of `size` floats.
template <typename Use>
XUANZANG_INLINE void in_lanes(size_t size, const Use& use) {
  size_t at = 0;
  for (; at + kLanes <= size; at += kLanes) use(at, kLanes);
  if (at < size) use(at, size - at);
}

// What is beyond `lanes` is 0.
XUANZANG_INLINE void load(Lanes& target, const float* source, size_t lanes) {
  target = Lanes{};
  if (lanes == kLanes) {
    std::memcpy(&target, source, sizeof target);
  } else {
    std::memcpy(&target, source, lanes * sizeof(float));
  }
}

XUANZANG_INLINE void store(float* target, const Lanes& source, size_t lanes) {
  if (lanes == kLanes) {
    std::memcpy(target, &source, sizeof source);
  } else {
    std::memcpy(target, &source, lanes * sizeof(float));
  }
}

// Lanes that are `kStep` further on, for sums and maxima over all lanes.
template <int kStep>
XUANZANG_INLINE void turn(Lanes& target, const Lanes& source) {
  static_assert(kStep == 8 || kStep == 4 || kStep == 2 || kStep == 1);
  if constexpr (kStep == 8) {
    target = __builtin_shufflevector(source, source, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  } else if constexpr (kStep == 4) {
    target = __builtin_shufflevector(source, source, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  } else if constexpr (kStep == 2) {
    target = __builtin_shufflevector(source, source, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  } else {
    target = __builtin_shufflevector(source, source, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  }
}

// Every lane becomes the sum of the lanes that are a multiple of 4 away.
XUANZANG_INLINE void sum_by_four(Lanes& lanes) {
  Lanes other;
  turn<8>(other, lanes), lanes += other;
  turn<4>(other, lanes), lanes += other;
}

XUANZANG_INLINE float sum(Lanes lanes) {
  Lanes other;
  sum_by_four(lanes);
  turn<2>(other, lanes), lanes += other;
  turn<1>(other, lanes), lanes += other;
  return lanes[0];
}

// The sums of four times sixteen floats.
XUANZANG_INLINE void sum_each(Quad& sums, const Lanes (&lanes)[4]) {
  Lanes halves[2];
  for (size_t pair = 0; pair < 2; ++pair) {
    const Lanes &a = lanes[2 * pair], &b = lanes[2 * pair + 1];
    halves[pair] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                   __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  const Lanes &ab = halves[0], &cd = halves[1];
  Lanes all = __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
              __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  Lanes other;
  turn<2>(other, all), all += other;
  turn<1>(other, all), all += other;
  sums = __builtin_shufflevector(all, all, 0, 4, 8, 12);
}

XUANZANG_INLINE void raise(Lanes& lanes, const Lanes& other) { lanes = lanes > other ? lanes : other; }

// Every lane becomes the greatest of the lanes that are a multiple of 4 away.
XUANZANG_INLINE void raise_by_four(Lanes& lanes) {
  Lanes other;
  turn<8>(other, lanes), raise(lanes, other);
  turn<4>(other, lanes), raise(lanes, other);
}

XUANZANG_INLINE float greatest(Lanes lanes) {
  Lanes other;
  raise_by_four(lanes);
  turn<2>(other, lanes), raise(lanes, other);
  turn<1>(other, lanes), raise(lanes, other);
  return lanes[0];
}

// Replaces x <= 0 by e^x, within 2 units in the last place; by e^-80 where it would be less, which is as good as 0
// beside a 1 and keeps products with it among the normal floats.
//
// e^x = 2^n e^r with n = round(x / ln 2); e^r for |r| <= ln 2 / 2 by Taylor's series.
XUANZANG_INLINE void exponentiate(Lanes& x) {
  constexpr float kRounding = 12582912.0f;  // 1.5 * 2^23: a float of this size has no places after the point
  raise(x, Lanes{} - 80.0f);
  const Lanes shifted = x * 1.44269504f + kRounding;
  const Lanes n = shifted - kRounding;
  // ln 2 in two parts, the first of so few bits that its multiples are exact.
  const Lanes r = x - n * 0.693359375f + n * 2.12194440e-4f;
  Lanes series = r * (1.0f / 720.0f) + 1.0f / 120.0f;
  series = series * r + 1.0f / 24.0f;
  series = series * r + 1.0f / 6.0f;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  // Multiplies by 2^n: adds n to the exponent bits.
  IntLanes bits;
  std::memcpy(&bits, &series, sizeof bits);
  bits += __builtin_convertvector(n, IntLanes) << 23;
  std::memcpy(&x, &bits, sizeof bits);
}

}  // namespace xuanzang
