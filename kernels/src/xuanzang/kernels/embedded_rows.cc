#include "embedded_rows.h"

#include <cstring>

namespace xuanzang {
namespace {

// Calls use(four, bytes) for each four bytes of a column of a packed matrix, in the order of `Panels`.
template <typename Use>
void for_fours(const int8_t* packed, size_t column, size_t depth, const Use& use) {
  const int8_t* bytes = packed + column / kPanel * kPanel * depth + column % kPanel * 4;
  for (size_t four = 0; four < depth / 4; ++four, bytes += 4 * kPanel) use(four, bytes);
}

size_t depth_of(size_t width) { return (width + 3) / 4 * 4; }

}  // namespace

void EmbeddedTable::use_packed(const std::vector<SharedColumns::Block>& blocks) {
  for (const auto& block : blocks) {
    if (!is_packed_in(block)) continue;
    packed_ = block.bytes;
    packed_rows_ = std::min(rows_.size(0), block.count / depth_of(rows_.size(1)));
    return;
  }
}

bool EmbeddedTable::is_packed_in(const SharedColumns::Block& block) const {
  const size_t width = rows_.size(1), depth = depth_of(width);
  // Tables may have one row more, which stands for no token.
  if (!width || block.count % (depth * kPanel) || block.count / depth + 1 < rows_.size(0)) return false;
  const size_t count = std::min(rows_.size(0), block.count / depth);
  for (size_t row = 0; row < count; ++row) {
    bool is_equal = true;
    for_fours(block.bytes.get(), row, depth, [&](size_t four, const int8_t* bytes) {
      const size_t some = std::min<size_t>(4, width - 4 * four);
      is_equal = is_equal && !std::memcmp(rows_.data + row * width + 4 * four, bytes, some);
    });
    if (!is_equal) return false;
  }
  return count > 0;
}

void EmbeddedTable::embed(size_t row, float scale, float* embedded) const {
  const size_t width = rows_.size(1);
  if (row >= packed_rows_) {
    for (size_t i = 0; i < width; ++i) embedded[i] = static_cast<float>(rows_.data[row * width + i]) * scale;
    return;
  }
  for_fours(packed_.get(), row, depth_of(width), [&](size_t four, const int8_t* bytes) {
    const size_t some = std::min<size_t>(4, width - 4 * four);
    for (size_t i = 0; i < some; ++i) embedded[4 * four + i] = static_cast<float>(bytes[i]) * scale;
  });
}

EmbeddedRows::Kept::Kept(const Constants& constants) {
  const auto rows = constants.input<int8_t>(0);
  if (!rows.data || rows.rank != 2) return;
  table = std::make_shared<EmbeddedTable>(rows);
  // The graph may be closed before all are open.
  SharedColumns::when_packed([waiting = std::weak_ptr<EmbeddedTable>(table)](const auto& blocks) {
    if (const auto still = waiting.lock()) still->use_packed(blocks);
  });
}

void EmbeddedRows::compute(const Context& context, const Kept& kept) {
  const auto rows = context.input<int8_t>(0);
  const auto scale = context.input<float>(1);
  const auto ids = context.input<int64_t>(2);
  require(rows.rank == 2 && ids.rank < kMaxRank, "an input has the wrong dimensions");
  require(scale.elements() == 1, "there is not one scale");
  const int64_t count = rows.shape[0];
  Tensor<const int64_t> like = ids;
  like.shape[like.rank++] = rows.shape[1];
  float* embedded = context.output<float>(0, like).data;
  const EmbeddedTable given(rows);
  const EmbeddedTable& table = kept.table ? *kept.table : given;
  for (size_t i = 0; i < ids.elements(); ++i, embedded += rows.size(1)) {
    const int64_t id = ids.data[i] < 0 ? ids.data[i] + count : ids.data[i];
    require(id >= 0 && id < count, "a row does not exist");
    table.embed(static_cast<size_t>(id), scale.data[0], embedded);
  }
}

}  // namespace xuanzang
