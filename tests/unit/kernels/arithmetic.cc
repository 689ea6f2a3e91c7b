// Compares the functions of every instruction set that the processor has with their formulas in double precision.
// Prints the names of the instruction sets; exits with 1 and a line on stderr for the first difference.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "simd.h"

namespace {

using xuanzang::kHidden;
using xuanzang::kQueries;
using xuanzang::Simd;

std::mt19937 generator(1);

std::vector<float> normal(size_t size) {
  std::normal_distribution<float> distribution;
  std::vector<float> values(size);
  for (float& value : values) value = distribution(generator);
  return values;
}

void compare(const char* what, double found, double expected, double tolerance) {
  if (std::abs(found - expected) <= tolerance * (1 + std::abs(expected))) return;
  std::fprintf(stderr, "%s: %.9g instead of %.9g\n", what, found, expected);
  std::exit(1);
}

// Attention with one head; every third position is hidden from every second hypothesis.
void check_attention(const Simd& simd, size_t beam, size_t count, size_t d_head) {
  const size_t padded = (count + 3) / 4 * 4, tiles = (beam + kQueries - 1) / kQueries;
  const auto queries = normal(beam * d_head), keys = normal(count * d_head), values = normal(count * d_head);
  std::vector<size_t> offsets(count);
  for (size_t i = 0; i < count; ++i) offsets[i] = i * d_head;
  std::vector<float> bias(tiles * padded * kQueries, kHidden), weights(bias.size()), mixed(beam * d_head);
  const auto sees = [](size_t i, size_t position) { return i % 2 == 0 || position % 3 == 0; };
  for (size_t i = 0; i < beam; ++i) {
    for (size_t position = 0; position < count; ++position) {
      if (sees(i, position)) bias[(i / kQueries * padded + position) * kQueries + i % kQueries] = 0;
    }
  }
  simd.attend({queries.data(), d_head, beam, 1},
              {keys.data(), values.data(), 0, d_head, offsets.data(), count, bias.data(), padded}, 0, weights.data(),
              mixed.data());
  for (size_t i = 0; i < beam; ++i) {
    std::vector<double> expected(d_head);
    double total = 0;
    for (size_t position = 0; position < count; ++position) {
      if (!sees(i, position)) continue;
      double product = 0;
      for (size_t k = 0; k < d_head; ++k) product += double{queries[i * d_head + k]} * keys[position * d_head + k];
      const double weight = std::exp(product / std::sqrt(static_cast<double>(d_head)));
      total += weight;
      for (size_t k = 0; k < d_head; ++k) expected[k] += weight * values[position * d_head + k];
    }
    for (size_t k = 0; k < d_head; ++k) compare("attend", mixed[i * d_head + k], expected[k] / total, 2e-5);
  }
}

void check_logits(const Simd& simd, size_t vocab_size) {
  const auto logits = normal(vocab_size);
  const size_t blocks = (vocab_size + xuanzang::kBlock - 1) / xuanzang::kBlock;
  std::vector<float> maxima(blocks * xuanzang::kMaxWidth);
  const float maximum = simd.find_maxima(logits.data(), vocab_size, maxima.data());
  compare("find_maxima", maximum, *std::max_element(logits.begin(), logits.end()), 0);
  for (size_t id = 0; id < vocab_size; ++id) {
    const float of_group = maxima[id / xuanzang::kBlock * xuanzang::kMaxWidth + id % xuanzang::kMaxWidth];
    if (of_group < logits[id]) compare("find_maxima of a group", of_group, logits[id], 0);
  }
  double sum = 0;
  for (float logit : logits) sum += std::exp(double{logit} - maximum);
  compare("sum_exponentials", simd.sum_exponentials(logits.data(), vocab_size, maximum), sum, 1e-5);
}

void check_norm(const Simd& simd, size_t size) {
  const auto x = normal(size), delta = normal(size), weight = normal(size), bias = normal(size);
  std::vector<float> sums(size), normed(size);
  std::vector<uint8_t> quantized(size);
  const float per_unit = 40, zero = 100;
  simd.add_norm_quantize({weight.data(), bias.data(), size, 1.0e-5f, {per_unit, zero, -zero}}, x.data(), delta.data(),
                         sums.data(), normed.data(), quantized.data());
  double mean = 0, variance = 0;
  for (size_t i = 0; i < size; ++i) mean += (double{x[i]} + delta[i]) / static_cast<double>(size);
  for (size_t i = 0; i < size; ++i) variance += std::pow(x[i] + delta[i] - mean, 2) / static_cast<double>(size);
  for (size_t i = 0; i < size; ++i) {
    const double expected = (x[i] + delta[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
    compare("normed", normed[i], expected, 1e-4);
    // Half an integer from rounding, and what the float was off.
    compare("quantized", quantized[i], std::clamp(normed[i] * per_unit + zero, 0.0f, 255.0f), 0.501);
  }
}

// Of all floats, and of the greater of each and 0, as behind a rectifier.
void check_rounding(const Simd& simd, size_t size) {
  const auto x = normal(size);
  std::vector<uint8_t> quantized(size);
  const float per_unit = 40, zero = 100;
  for (const float lowest : {-zero, 0.0f}) {
    simd.quantize(x.data(), size, {per_unit, zero, lowest}, quantized.data());
    for (size_t i = 0; i < size; ++i) {
      const float expected = std::min(std::max(x[i] * per_unit, lowest) + zero, 255.0f);
      compare("quantize", quantized[i], expected, 0.501);
    }
  }
}

void check_columns(const Simd& simd, size_t size) {
  const size_t beam = 3, count = 5;
  std::vector<uint8_t> rows(beam * size);
  std::vector<int8_t> integers(count * size);
  for (uint8_t& value : rows) value = static_cast<uint8_t>(generator());
  for (int8_t& value : integers) value = static_cast<int8_t>(generator());
  const auto scale = normal(count), bias = normal(count);
  const std::vector<int64_t> ids{4, 0, 2, 2, 1};
  std::vector<float> products(beam * count);
  simd.multiply_columns({integers.data(), scale.data(), bias.data(), size}, rows.data(), beam, ids.data(), count,
                        products.data(), count);
  for (size_t row = 0; row < beam; ++row) {
    for (size_t at = 0; at < count; ++at) {
      const size_t id = static_cast<size_t>(ids[at]);
      int64_t product = 0;
      for (size_t k = 0; k < size; ++k) product += int64_t{rows[row * size + k]} * integers[id * size + k];
      compare("multiply_columns", products[row * count + at], static_cast<double>(product) * scale[id] + bias[id],
              1e-6);
    }
  }
}

// The second block of columns, of some panels, times as many rows as are multiplied at once or fewer.
void check_projection(const Simd& simd, size_t depth, size_t count, int32_t zero, size_t panels) {
  if (!simd.project) return;
  using xuanzang::kBlock;
  using xuanzang::kPanel;
  struct alignas(64) Line {
    int8_t integers[64];
  };
  const size_t width = panels * kPanel, columns = kBlock + width;
  std::vector<Line> lines(columns * depth / sizeof(Line));
  int8_t* const integers = lines.data()->integers;
  for (size_t i = 0; i < columns * depth; ++i) integers[i] = static_cast<int8_t>(generator());
  std::vector<uint8_t> rows(count * depth);
  for (uint8_t& value : rows) value = static_cast<uint8_t>(generator());
  const auto integer = [&](size_t column, size_t k) {
    return integers[column / kPanel * kPanel * depth + k / 4 * 4 * kPanel + column % kPanel * 4 + k % 4];
  };
  std::vector<int32_t> start(columns);
  for (size_t column = 0; column < columns; ++column) {
    for (size_t k = 0; k < depth; ++k) start[column] -= zero * integer(column, k);
  }
  const auto scale = normal(columns), bias = normal(columns);
  std::vector<float> logits(count * kBlock, 0.5f);
  simd.project({integers, start.data(), scale.data(), bias.data(), depth, columns, zero}, 1, rows.data(), count,
               logits.data(), kBlock);
  for (size_t row = 0; row < count; ++row) {
    for (size_t i = width; i < kBlock; ++i) compare("project, no panel", logits[row * kBlock + i], 0.5, 0);
    for (size_t i = 0; i < width; ++i) {
      const size_t column = kBlock + i;
      int64_t product = start[column];
      for (size_t k = 0; k < depth; ++k) product += int64_t{rows[row * depth + k]} * integer(column, k);
      compare("project", logits[row * kBlock + i], static_cast<double>(product) * scale[column] + bias[column], 1e-6);
    }
  }
}

}  // namespace

int main() {
  for (const Simd* simd : xuanzang::supported_simd()) {
    for (size_t size : {1, 5, 16, 30, 64, 129, 300}) {
      for (size_t beam = 1; beam <= 9; ++beam) check_attention(*simd, beam, size % 41 + 1, size);
      check_logits(*simd, size * 3);
      check_norm(*simd, size);
      check_rounding(*simd, size);
      check_columns(*simd, size);
      for (size_t rows = 1; rows <= xuanzang::kProjected; ++rows)
        check_projection(*simd, size / 4 * 4 + 4, rows, 128, 4);
    }
    for (size_t depth : {64, 68, 256, 1100}) {
      for (size_t rows = 1; rows <= simd->projected; ++rows) {
        for (int32_t zero : {0, 100, 255}) check_projection(*simd, depth, rows, zero, 1 + rows % 4);
      }
    }
    std::printf("%s\n", simd->isa);
  }
}
