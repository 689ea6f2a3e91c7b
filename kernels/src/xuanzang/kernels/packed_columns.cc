#include "packed_columns.h"

#include "shared_columns.h"

namespace xuanzang {
namespace {

// Copies the part of four rows that lies in a panel: `count` columns of `rows` rows, and zeros for missing rows.
void copy_rows(const int8_t* from, size_t stride, size_t rows, size_t count, int8_t (&to)[4][kPanel]) {
  for (size_t i = 0; i < 4; ++i) {
    if (i < rows && count == kPanel) {
      std::copy_n(from + i * stride, kPanel, to[i]);
    } else {
      std::fill_n(to[i], kPanel, int8_t{0});
      std::copy_n(from + i * stride, i < rows ? count : 0, to[i]);
    }
  }
}

}  // namespace

PackedColumns::PackedColumns(const QuantizedMatrix& matrix) {
  require(matrix.integers.rank == 2, "an input has the wrong dimensions");
  width_ = matrix.integers.size(0), vocab_size_ = matrix.integers.size(1);
  require(width_ > 0, "a matrix has no rows");
  require(matrix.scale.elements() == vocab_size_ && matrix.bias.elements() == vocab_size_,
          "a column has no scale or no bias");
  require(matrix.x_scale.elements() == 1 && matrix.x_zero.elements() == 1, "there is not one scale and zero point");
  depth_ = (width_ + 3) / 4 * 4;
  x_scale_ = matrix.x_scale.data[0], x_zero_ = matrix.x_zero.data[0];
  require(x_scale_ > 0, "the scale is not a positive number");
  const size_t columns = (vocab_size_ + kPanel - 1) / kPanel * kPanel;
  start_.resize(columns), scale_.resize(columns), bias_.resize(columns);
  const auto packed = own_pages(columns * depth_);
  for (size_t first = 0; first < vocab_size_; first += kPanel) pack_panel(matrix, first, packed.get() + first * depth_);
  integers_ = packed;
  for (size_t column = 0; column < vocab_size_; ++column) {
    scale_[column] = matrix.x_scale.data[0] * matrix.scale.data[column];
    bias_[column] = matrix.bias.data[column];
  }
}

void PackedColumns::pack_panel(const QuantizedMatrix& matrix, size_t first, int8_t* packed) {
  const size_t count = std::min(kPanel, vocab_size_ - first);
  int32_t sums[kPanel] = {};
  for (size_t k = 0; k < depth_; k += 4, packed += 4 * kPanel) {
    int8_t rows[4][kPanel];
    copy_rows(matrix.integers.data + k * vocab_size_ + first, vocab_size_, std::min<size_t>(4, width_ - k), count,
              rows);
    // Two loops, which compilers turn into vector instructions; one they do not.
    for (size_t column = 0; column < kPanel; ++column) {
      for (size_t i = 0; i < 4; ++i) packed[column * 4 + i] = rows[i][column];
    }
    for (size_t column = 0; column < kPanel; ++column) {
      sums[column] += rows[0][column] + rows[1][column] + rows[2][column] + rows[3][column];
    }
  }
  // The zero point times a column is the same for all rows.
  const int32_t zero = matrix.x_zero.data[0];
  for (size_t column = 0; column < count; ++column) start_[first + column] = -zero * sums[column];
}

void PackedColumns::share() { integers_ = SharedColumns::place(std::move(integers_), start_.size() * depth_); }

PackedColumns kept_columns(const Constants& constants, size_t first) {
  const auto matrix = QuantizedMatrix::read(constants, first);
  if (!matrix.exists()) return {};
  PackedColumns columns(matrix);
  columns.share();
  return columns;
}

}  // namespace xuanzang
