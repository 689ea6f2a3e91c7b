// The packed matrices of graphs that are opened together: in a file, so that all processes that open the same graphs
// have them in the same memory, or in that of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace xuanzang {

// Zeros in pages of the process, which are given back when unused. Pieces of the heap would be kept.
std::shared_ptr<int8_t> own_pages(size_t count);

// Blocks, in a file one after another in the order of packing. They stay mapped as long as this
// lives.
class SharedColumns {
 public:
  // A packed matrix.
  struct Block {
    std::shared_ptr<const int8_t> bytes;
    size_t count;
    bool is_of_file;
  };

  // descriptor: the file's; negative for none.
  explicit SharedColumns(int descriptor) : descriptor_(descriptor), has_all_(descriptor >= 0) {}

  // Takes in the matrices that the calling thread packs from now on; null for none.
  static void use(SharedColumns* columns) { used() = columns; }

  // Takes in the next block, and returns where it is from now on: in the file, written if that ends there; or where it
  // was, if there is no file or it has these bytes nowhere.
  static std::shared_ptr<const int8_t> place(std::shared_ptr<const int8_t> bytes, size_t count) {
    return used() && count ? used()->placed(std::move(bytes), count) : bytes;
  }

  // Calls a function with all blocks, once all graphs are open.
  static void when_packed(std::function<void(const std::vector<Block>&)> call) {
    if (used()) used()->waiting_.push_back(std::move(call));
  }

  // Calls the functions that wait for it.
  void finish();

  // True if all matrices are in the file.
  bool has_all() const { return has_all_; }

  // Takes the pages of the file out of the process; they come back from the system's cache when they are read.
  void release() const;

 private:
  static SharedColumns*& used() {
    thread_local SharedColumns* columns = nullptr;
    return columns;
  }

  std::shared_ptr<const int8_t> placed(std::shared_ptr<const int8_t> bytes, size_t count);
  std::shared_ptr<const int8_t> in_file(const int8_t* bytes, size_t count);
  std::shared_ptr<const int8_t> same_at(size_t position, const int8_t* bytes, size_t count) const;

  const int descriptor_;
  bool has_all_;
  size_t position_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::function<void(const std::vector<Block>&)>> waiting_;
};

}  // namespace xuanzang
