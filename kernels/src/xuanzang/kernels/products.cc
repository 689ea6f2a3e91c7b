#include "products.h"

#include <vector>

namespace xuanzang {
namespace {

// Multiplications of integers that take as long as one of floats.
constexpr size_t kPerOperation = 6;

// Rows in parts of about one size, which share what the caches hold of a matrix; two for threads where it pays.
class Parts {
 public:
  Parts(const Simd& simd, size_t rows)
      : rows_(rows), count_(rows < 2 * kProjected ? 1 : std::max<size_t>(2, (rows + most(simd) - 1) / most(simd))) {}

  size_t count() const { return count_; }
  size_t first(size_t part) const { return rows_ * part / count_; }
  size_t size(size_t part) const { return first(part + 1) - first(part); }

 private:
  // Whole runs of simultaneous products.
  static size_t most(const Simd& simd) { return (48 + simd.projected - 1) / simd.projected * simd.projected; }

  size_t rows_, count_;
};

// States as the panels of a matrix take them, `depth` bytes each.
class States {
 public:
  States(const Context& context, const PackedColumns& columns)
      : x_(context.input<uint8_t>(0)), depth_(columns.depth()) {
    require(x_.rank >= 1 && x_.rank <= kMaxRank, "x has the wrong dimensions");
    require(x_.size(x_.rank - 1) == columns.width(), "x and columns differ in width");
    count_ = columns.width() ? x_.elements() / columns.width() : 0;
    data_ = x_.data;
    if (columns.width() == depth_) return;
    thread_local std::vector<uint8_t> padded;
    padded.assign(count_ * depth_, 0);
    for (size_t row = 0; row < count_; ++row) {
      std::copy_n(x_.data + row * columns.width(), columns.width(), padded.data() + row * depth_);
    }
    data_ = padded.data();
  }

  size_t count() const { return count_; }
  const uint8_t* row(size_t number) const { return data_ + number * depth_; }

  // The products' tensor, as wide as the matrix has columns.
  Tensor<float> output(const Context& context, const PackedColumns& columns) const {
    Tensor<const uint8_t> like = x_;
    like.shape[like.rank - 1] = static_cast<int64_t>(columns.vocab_size());
    return context.output<float>(0, like);
  }

 private:
  const Tensor<const uint8_t> x_;
  const size_t depth_;
  size_t count_ = 0;
  const uint8_t* data_ = nullptr;
};

struct alignas(64) Tile {
  float products[kMaxProjected][kBlock];
};

// Calls use(row, some) for rows in groups of about one size, as many as are multiplied at once.
template <typename Use>
void for_groups(const Simd& simd, size_t count, const Use& use) {
  size_t row = 0;
  for (size_t left = (count + simd.projected - 1) / simd.projected; left; --left) {
    const size_t some = (count - row + left - 1) / left;
    use(row, some);
    row += some;
  }
}

// Multiplies rows by a block of columns; calls use(row, products) for each of them.
template <typename Use>
void multiply(const Simd& simd, const PackedColumns& columns, size_t block, const uint8_t* rows, size_t count,
              const Use& use) {
  const Panels panels = columns.panels();
  Tile tile;
  for_groups(simd, count, [&](size_t row, size_t some) {
    simd.project(panels, block, rows + row * panels.depth, some, tile.products[0], kBlock);
    for (size_t i = 0; i < some; ++i) use(row + i, tile.products[i]);
  });
}

// Writes the products of rows with a block of columns into a tensor.
void write_products(const Simd& simd, const PackedColumns& columns, size_t block, const uint8_t* rows, size_t count,
                    float* target) {
  const Panels panels = columns.panels();
  const size_t width = columns.vocab_size(), size = columns.block_size(block);
  target += block * kBlock;
  if (size == kBlock) {
    for_groups(simd, count, [&](size_t row, size_t some) {
      simd.project(panels, block, rows + row * panels.depth, some, target + row * width, width);
    });
    return;
  }
  multiply(simd, columns, block, rows, count,
           [&](size_t row, const float* products) { std::copy_n(products, size, target + row * width); });
}

}  // namespace

void QuantizedProduct::compute(const Context& context, const Kept& kept) {
  PackedColumns given;
  const PackedColumns& columns = kept.columns.or_read(context, 1, given);
  const States x(context, columns);
  float* const target = x.output(context, columns).data;
  const Parts parts(context.simd(), x.count());
  const size_t operations = x.count() * columns.depth() * columns.vocab_size() / kPerOperation;
  context.parallel(parts.count() * columns.blocks(), operations, [&](size_t index) {
    const size_t part = index / columns.blocks(), first = parts.first(part);
    write_products(context.simd(), columns, index % columns.blocks(), x.row(first), parts.size(part),
                   target + first * columns.vocab_size());
  });
}

void FeedForward::compute(const Context& context, const Kept& kept) {
  PackedColumns given_inner, given_outer;
  const PackedColumns& inner = kept.inner.or_read(context, 1, given_inner);
  const PackedColumns& outer = kept.outer.or_read(context, 6, given_outer);
  require(inner.vocab_size() == outer.width(), "the matrices do not fit together");
  const States x(context, inner);
  float* const target = x.output(context, outer).data;
  const Simd& simd = context.simd();
  // Negative values become 0.
  const Rounding rounding{1.0f / outer.x_scale(), outer.x_zero(), 0.0f};
  const size_t operations = x.count() * (inner.depth() * inner.vocab_size() + outer.depth() * outer.vocab_size());
  const Parts parts(context.simd(), x.count());
  context.parallel(parts.count(), operations / kPerOperation, [&](size_t part) {
    thread_local std::vector<uint8_t> states;
    const size_t first = parts.first(part), count = parts.size(part);
    states.assign(count * outer.depth(), 0);
    for (size_t block = 0; block < inner.blocks(); ++block) {
      multiply(simd, inner, block, x.row(first), count, [&](size_t row, const float* products) {
        uint8_t* const quantized = states.data() + row * outer.depth() + block * kBlock;
        simd.quantize(products, inner.block_size(block), rounding, quantized);
      });
    }
    for (size_t block = 0; block < outer.blocks(); ++block) {
      write_products(simd, outer, block, states.data(), count, target + first * outer.vocab_size());
    }
  });
}

}  // namespace xuanzang
