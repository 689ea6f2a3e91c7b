// The arithmetic of the kernels, compiled once for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xuanzang {

// Floats of the widest vector of any instruction set: buffers are padded to multiples of it.
constexpr size_t kMaxWidth = 16;
// Hypotheses are compared with keys and values four at a time: as many sums as the registers of AVX-512 hold. Their
// weights lie side by side, [position, 4], so that one vector holds those of several positions.
constexpr size_t kQueries = 4;
// Far below any score: hidden positions get no weight.
constexpr float kHidden = -1.0e9f;
// Logits are searched in blocks. Those of a block whose ids are equal modulo 16 are a group.
constexpr size_t kBlock = kMaxWidth * kMaxWidth;

// The keys and values that the hypotheses of a sentence see.
struct KeyValues {
  const float* keys;
  const float* values;
  size_t head_stride;  // Floats from a head to the next.
  size_t d_head;
  const size_t* offsets;  // Offsets of each position's key and value, for the first head.
  size_t count;           // Positions.
  const float* bias;      // 0 for visible positions, else kHidden: [beam / 4, padded, 4].
  size_t padded;          // Positions, padded to whole vectors of weights.
};

// The queries of a sentence for all heads, [beam, heads, head], `stride` floats from one hypothesis to the next.
struct Queries {
  const float* data;
  size_t stride;
  size_t beam;
  size_t heads;
};

// Conversion of floats to the integers 0 to 255.
struct Rounding {
  float per_unit;  // Integers per 1.0.
  float zero;      // The integer that stands for 0.0.
  float lowest;    // Bound of the integers less `zero`: -zero, or 0 for the greater of the floats and 0.
};

// A normalisation of rows and the integers that follow it.
struct Norm {
  const float* weight;
  const float* bias;
  size_t size;    // Floats of a row.
  float epsilon;  // Added to the variance.
  Rounding rounding;
};

// The columns of a matrix of 8-bit integers, [column, size].
struct Columns {
  const int8_t* integers;
  const float* scale;  // Scale of each column's products.
  const float* bias;   // Added to the scaled products.
  size_t size;
};

// Columns of a panel: four vectors of AVX-512.
constexpr size_t kPanel = 64;
// Rows that vectors multiply at once: as many as leave registers for a panel.
constexpr size_t kProjected = 6;
// Rows that any instruction set multiplies at once.
constexpr size_t kMaxProjected = 32;

// A matrix of 8-bit integers for products with unsigned ones; columns up to a whole panel are zeros.
struct Panels {
  const int8_t* integers;  // [panel, depth / 4, 64, 4].
  const int32_t* start;    // Added to the products with each column.
  const float* scale;      // Scale of these sums.
  const float* bias;       // Added to the scaled sums.
  size_t depth;            // A multiple of 4.
  size_t columns;          // A multiple of 64.
  int32_t zero;            // The integer of the rows that stands for 0.0; start is its products' sum, negated.
};

// The functions of one instruction set.
struct Simd {
  const char* isa;

  // Computes attention of all hypotheses of a sentence with one head.
  //
  // weights: buffer as large as the bias; holds the weights afterwards. mixed: [beam, heads, head] of the sentence.
  void (*attend)(const Queries&, const KeyValues&, size_t head, float* weights, float* mixed);

  // Finds the maximum of each group of logits, [block, 16], and returns the maximum of all.
  float (*find_maxima)(const float* logits, size_t vocab_size, float* maxima);

  // Returns the sum of the exponentials of the logits minus their maximum.
  float (*sum_exponentials)(const float* logits, size_t vocab_size, float maximum);

  // Adds two rows, normalises the sum (Ba et al. 2016, arXiv:1607.06450) and rounds it to integers; `normed` may be
  // null.
  void (*add_norm_quantize)(const Norm&, const float* x, const float* delta, float* sums, float* normed,
                            uint8_t* quantized);

  // Multiplies the rows of a sentence, one per hypothesis, by some columns.
  //
  // ids: numbers of the columns. products: those of the first row; `stride` floats from one row's to the next's.
  void (*multiply_columns)(const Columns&, const uint8_t* rows, size_t beam, const int64_t* ids, size_t count,
                           float* products, size_t stride);

  // Rounds floats to integers.
  void (*quantize)(const float* x, size_t size, const Rounding&, uint8_t* quantized);

  // Multiplies up to `projected` rows, `depth` bytes from one to the next, by the columns of a block; the last one may
  // have fewer panels than others.
  //
  // products: [count, kBlock], `stride` floats from one row's to the next's. Null without such vectors.
  void (*project)(const Panels&, size_t block, const uint8_t* rows, size_t count, float* products, size_t stride);

  // Rows that `project` multiplies at once.
  size_t projected;
};

// The instruction sets that this library was compiled for and the processor has, best first; the last is "generic".
const std::vector<const Simd*>& supported_simd();

// The best instruction set, or the one that the environment variable XUANZANG_KERNELS_ISA names; null if that names
// none of `supported_simd`.
const Simd* chosen_simd();

}  // namespace xuanzang
