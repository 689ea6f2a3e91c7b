#include "packed_columns.h"

namespace xuanzang {

PackedColumns::PackedColumns(const QuantizedMatrix& matrix) {
  require(matrix.integers.rank == 2, "an input has the wrong dimensions");
  width_ = matrix.integers.size(0), vocab_size_ = matrix.integers.size(1);
  require(matrix.scale.elements() == vocab_size_ && matrix.bias.elements() == vocab_size_,
          "a column has no scale or no bias");
  require(matrix.x_scale.elements() == 1 && matrix.x_zero.elements() == 1, "there is not one scale and zero point");
  depth_ = (width_ + 3) / 4 * 4;
  x_scale_ = matrix.x_scale.data[0], x_zero_ = matrix.x_zero.data[0];
  require(x_scale_ > 0, "the scale is not a positive number");
  const size_t columns = blocks() * kBlock;
  lines_.resize(columns * depth_ / sizeof(Line));
  start_.resize(columns), scale_.resize(columns), bias_.resize(columns);
  int8_t* const packed = reinterpret_cast<int8_t*>(lines_.data());
  for (size_t k = 0; k < width_; ++k) {
    for (size_t column = 0; column < vocab_size_; ++column) {
      const int8_t integer = matrix.integers.data[k * vocab_size_ + column];
      packed[column / kPanel * kPanel * depth_ + k / 4 * 4 * kPanel + column % kPanel * 4 + k % 4] = integer;
      // The zero point times a column is the same for all rows.
      start_[column] -= int32_t{matrix.x_zero.data[0]} * integer;
    }
  }
  for (size_t column = 0; column < vocab_size_; ++column) {
    scale_[column] = matrix.x_scale.data[0] * matrix.scale.data[column];
    bias_[column] = matrix.bias.data[column];
  }
}

PackedColumns kept_columns(const Constants& constants, size_t first) {
  const auto matrix = QuantizedMatrix::read(constants, first);
  return matrix.exists() ? PackedColumns(matrix) : PackedColumns();
}

}  // namespace xuanzang
