// Embeddings of 8-bit integers, whose table may be the columns of a packed matrix.
#pragma once

#include <memory>
#include <vector>

#include "custom_op.h"
#include "shared_columns.h"

namespace xuanzang {

// A constant table [row, width]. Once a packed matrix is found whose columns are its rows, they are read there, so that
// the pages of the table are not needed in memory.
class EmbeddedTable {
 public:
  explicit EmbeddedTable(const Tensor<const int8_t>& rows) : rows_(rows) {}

  // Reads rows from one of some matrices from now on, if it has them.
  void use_packed(const std::vector<SharedColumns::Block>& blocks);

  // Writes a row, times a scale.
  void embed(size_t row, float scale, float* embedded) const;

 private:
  bool is_packed_in(const SharedColumns::Block& block) const;

  const Tensor<const int8_t> rows_;
  std::shared_ptr<const int8_t> packed_;
  size_t packed_rows_ = 0;  // Rows from here on are only in the table.
};

struct EmbeddedRows {
  static constexpr const char* kName = "EmbeddedRows";
  // Table [row, width], its scale, numbers of rows [...]; a negative number counts from the end.
  static constexpr OrtElementType kInputs[] = {kOrtInt8, kOrtFloat, kOrtInt64};
  static constexpr OrtElementType kOutputs[] = {kOrtFloat};  // [..., width].
  static constexpr std::array<InPlace, 0> kInPlace{};

  // The table, if it never changes.
  struct Kept {
    explicit Kept(const Constants& constants);
    std::shared_ptr<EmbeddedTable> table;
  };

  static void compute(const Context& context, const Kept& kept);
};

}  // namespace xuanzang
