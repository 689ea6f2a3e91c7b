#include "shared_columns.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace xuanzang {
namespace {

// Mappings begin at whole pages, of 64 KiB on some systems; the gaps between blocks are never read.
constexpr size_t kAlignment = 65536;

bool write_all(int descriptor, const int8_t* bytes, size_t count, size_t position) {
  while (count) {
    const ssize_t written = pwrite(descriptor, bytes, count, static_cast<off_t>(position));
    if (written <= 0) return false;
    bytes += written, position += static_cast<size_t>(written), count -= static_cast<size_t>(written);
  }
  return true;
}

// Maps pages of a file, or of none; null if that fails.
std::shared_ptr<int8_t> mapped(size_t count, int protection, int flags, int descriptor, size_t position) {
  void* const where = mmap(nullptr, count, protection, flags, descriptor, static_cast<off_t>(position));
  if (where == MAP_FAILED) return nullptr;
  return {static_cast<int8_t*>(where), [count](int8_t* pages) { munmap(pages, count); }};
}

}  // namespace

std::shared_ptr<int8_t> own_pages(size_t count) {
  if (!count) return nullptr;
  auto pages = mapped(count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!pages) throw std::bad_alloc();
  return pages;
}

std::shared_ptr<const int8_t> SharedColumns::placed(std::shared_ptr<const int8_t> bytes, size_t count) {
  auto same = descriptor_ < 0 ? nullptr : in_file(bytes.get(), count);
  const bool is_of_file = same != nullptr;
  has_all_ = has_all_ && is_of_file;
  blocks_.push_back({is_of_file ? std::move(same) : std::move(bytes), count, is_of_file});
  return blocks_.back().bytes;
}

// Returns where the file has the next block; null if it has other bytes there or cannot be written.
std::shared_ptr<const int8_t> SharedColumns::in_file(const int8_t* bytes, size_t count) {
  const size_t position = position_;
  position_ = (position + count + kAlignment - 1) / kAlignment * kAlignment;
  struct stat state;
  if (fstat(descriptor_, &state)) return nullptr;
  const size_t size = static_cast<size_t>(state.st_size);
  if (size < position + count && (size > position || !write_all(descriptor_, bytes, count, position))) return nullptr;
  auto block = mapped(count, PROT_READ, MAP_SHARED, descriptor_, position);
  // Existing content is compared, so its writer need not be trusted.
  return block && !std::memcmp(block.get(), bytes, count) ? block : nullptr;
}

void SharedColumns::finish() {
  for (const auto& call : waiting_) call(blocks_);
  waiting_.clear();
}

void SharedColumns::release() const {
  for (const Block& block : blocks_) {
    if (block.is_of_file) madvise(const_cast<int8_t*>(block.bytes.get()), block.count, MADV_DONTNEED);
  }
}

}  // namespace xuanzang
