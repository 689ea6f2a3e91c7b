// The loops that take the time. There is one version of them for each kind of processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xuanzang {

// Floats that go through a loop together at most: rooms are filled up to multiples of it.
constexpr size_t kVector = 16;
// Hypotheses go through keys and values four at a time: as many sums as the registers of AVX-512 hold. Their weights
// lie side by side, [position, 4], so that one vector holds those of several positions.
constexpr size_t kQueries = 4;
// Far below any score: what is hidden gets no weight.
constexpr float kHidden = -1.0e9f;
// Logits are looked at in blocks. Those of a block whose ids are equal modulo 16 are a group.
constexpr size_t kBlock = kVector * kVector;

// The keys and values that the hypotheses of a sentence see.
struct Memory {
  const float* keys;
  const float* values;
  size_t head_stride;  // Floats from a head to the next.
  size_t d_head;
  const size_t* rows;  // Where key and value of each position begin, for the first head.
  size_t count;        // Positions.
  const float* bias;   // 0 for what each hypothesis sees, else kHidden: [beam / 4, width, 4].
  size_t width;        // Positions, filled up to whole vectors of weights.
};

// The queries of a sentence for all heads, [beam, heads, head], `stride` floats from one hypothesis to the next.
struct Queries {
  const float* data;
  size_t stride;
  size_t beam;
  size_t heads;
};

// A normalisation of rows and the integers that follow it.
struct Norm {
  const float* weight;
  const float* bias;
  size_t size;     // Floats of a row.
  float per_unit;  // Integers per 1.0.
  float zero;      // The integer that stands for 0.0.
};

// Columns of a matrix of 8-bit integers, side by side.
struct Columns {
  const int8_t* integers;
  const float* scale;  // Of the products with each column.
  const float* bias;   // What is added to them.
  size_t size;         // Integers of a column.
};

struct Loops {
  // Attention of all hypotheses of a sentence with one head.
  //
  // weights: room as the bias has; holds the weights afterwards. mixed: [beam, heads, head] of the sentence.
  void (*attend)(const Queries&, const Memory&, size_t head, float* weights, float* mixed);

  // Finds the greatest logit of each group, [block, 16], and returns the greatest of all.
  float (*find_maxima)(const float* logits, size_t vocabulary, float* maxima);

  // Returns the sum of the exponentials of the logits minus the greatest.
  float (*sum_exponentials)(const float* logits, size_t vocabulary, float most);

  // Adds two rows, normalises the sum (Ba et al. 2016, arXiv:1607.06450) and rounds it to integers; `normed` may be
  // null.
  void (*add_norm_quantize)(const Norm&, const float* x, const float* delta, float* sums, float* normed,
                            uint8_t* quantized);

  // Multiplies the rows of a sentence, one per hypothesis, by some columns.
  //
  // ids: of the columns. products: of the first row; `stride` floats from one row's to the next's.
  void (*project)(const Columns&, const uint8_t* rows, size_t beam, const int64_t* ids, size_t count, float* products,
                  size_t stride);
};

// The version for this processor.
const Loops& loops();

}  // namespace xuanzang
