// The functions that the library exports: onnxruntime's entry point, facts for the Python package, the bookkeeping of a
// step, and graphs with the steps that they take.

#include <exception>
#include <string>

#include "decode.h"
#include "operators.h"
#include "session.h"
#include "shared_columns.h"
#include "simd.h"
#include "step.h"

#define XUANZANG_EXPORT extern "C" __attribute__((visibility("default")))

namespace xuanzang {
namespace {

constexpr int64_t kFailed = -2;

// Why the last call of this thread failed that can; empty if it did not.
std::string& last_fault() {
  thread_local std::string fault;
  return fault;
}

// Returns what some work returns, or `failed` and keeps the reason.
template <typename Result, typename Work>
Result guarded(Result failed, const Work& work) noexcept {
  try {
    last_fault().clear();
    return work();
  } catch (const std::exception& error) {
    last_fault() = error.what();
  } catch (...) {
    last_fault() = "an unknown exception";
  }
  return failed;
}

}  // namespace
}  // namespace xuanzang

// Adds the operators to the options of a session, for the chosen instruction set. onnxruntime calls this.
XUANZANG_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace xuanzang;
  if (!base) return nullptr;
  try {
    last_fault().clear();
    Library::of(*base).add_to(options);
    return nullptr;
  } catch (const std::exception& error) {
    last_fault() = error.what();
    return status_of(*base, kOrtFail, error.what());
  }
}

// Returns why the last call in this thread failed that can, `RegisterCustomOps` among them; empty if it did not. An
// onnxruntime that is too different to be given a status does not report it.
XUANZANG_EXPORT const char* XuanzangLastFault() { return xuanzang::last_fault().c_str(); }

// Returns the name of the instruction set that sessions would use from now on; null if XUANZANG_KERNELS_ISA is wrong.
XUANZANG_EXPORT const char* XuanzangChosenIsa() {
  const xuanzang::Simd* const simd = xuanzang::chosen_simd();
  return simd ? simd->isa : nullptr;
}

// Returns the name of a supported instruction set, best first; null beyond the last.
XUANZANG_EXPORT const char* XuanzangSupportedIsa(size_t index) {
  const auto& supported = xuanzang::supported_simd();
  return index < supported.size() ? supported[index]->isa : nullptr;
}

// Returns the sizes of the structures that Python gives, which must match them.
XUANZANG_EXPORT const int64_t* XuanzangStructureSizes() {
  using namespace xuanzang;
  static const int64_t sizes[] = {sizeof(SlotStep), sizeof(BeamStep), sizeof(SessionSettings), sizeof(BoundTensor),
                                  sizeof(Decode)};
  return sizes;
}

XUANZANG_EXPORT int64_t XuanzangAdvanceSlots(const xuanzang::SlotStep* step) {
  return xuanzang::advance_slots(*step, xuanzang::Pages::kMayLack);
}

XUANZANG_EXPORT int64_t XuanzangContinueBest(const xuanzang::BeamStep* step) { return xuanzang::continue_best(*step); }

// Lets graphs that this thread opens have their matrices together until `XuanzangEndSharing`, in a file unless the
// descriptor is negative. Returns what keeps them mapped, null if there is no memory for it.
XUANZANG_EXPORT xuanzang::SharedColumns* XuanzangBeginSharing(int64_t descriptor) {
  using namespace xuanzang;
  return guarded<SharedColumns*>(nullptr, [&] {
    auto* const columns = new SharedColumns(static_cast<int>(descriptor));
    SharedColumns::use(columns);
    return columns;
  });
}

// Returns 1 if the file has all matrices that were packed since `XuanzangBeginSharing`, otherwise 0.
XUANZANG_EXPORT int64_t XuanzangEndSharing(xuanzang::SharedColumns* columns) {
  xuanzang::SharedColumns::use(nullptr);
  return xuanzang::guarded<int64_t>(0, [&] {
    if (columns) columns->finish();
    return columns && columns->has_all();
  });
}

// Takes the pages of matrices in a file out of the process until they are read.
XUANZANG_EXPORT void XuanzangReleasePages(const xuanzang::SharedColumns* columns) { columns->release(); }

XUANZANG_EXPORT void XuanzangFreeSharing(xuanzang::SharedColumns* columns) { delete columns; }

// Opens a graph; returns null if it cannot be opened.
XUANZANG_EXPORT xuanzang::Session* XuanzangOpenGraph(const xuanzang::SessionSettings* settings) {
  using namespace xuanzang;
  return guarded<Session*>(nullptr, [&] { return new Session(Library::known(), *settings); });
}

XUANZANG_EXPORT void XuanzangCloseGraph(xuanzang::Session* session) { delete session; }

// Returns the names of inputs and outputs, each followed by a line break; they live as long as the graph.
XUANZANG_EXPORT const char* XuanzangGraphNames(const xuanzang::Session* session) { return session->names().c_str(); }

// Returns a binding of an open graph, null if there is no memory for it. It must not outlive the graph.
XUANZANG_EXPORT xuanzang::Binding* XuanzangNewBinding(const xuanzang::Session* session, int64_t shrinks) {
  using namespace xuanzang;
  return guarded<Binding*>(nullptr, [&] { return new Binding(*session, shrinks); });
}

XUANZANG_EXPORT void XuanzangFreeBinding(xuanzang::Binding* binding) { delete binding; }

// Binds tensors; returns 0, or -2 if one does not exist in the graph.
XUANZANG_EXPORT int64_t XuanzangBind(xuanzang::Binding* binding, const xuanzang::BoundTensor* tensors, int64_t count) {
  return xuanzang::guarded<int64_t>(xuanzang::kFailed, [&] {
    for (int64_t index = 0; index < count; ++index) binding->bind(tensors[index]);
    return 0;
  });
}

// Runs a graph; returns 0, or -2 if it fails.
XUANZANG_EXPORT int64_t XuanzangRun(const xuanzang::Binding* binding) {
  return xuanzang::guarded<int64_t>(xuanzang::kFailed, [&] {
    binding->run();
    return 0;
  });
}

// Takes decoder steps; returns what `decode` does, or -2 if the graph fails.
XUANZANG_EXPORT int64_t XuanzangDecode(xuanzang::Decode* decode) {
  return xuanzang::guarded<int64_t>(xuanzang::kFailed, [&] { return xuanzang::decode(*decode); });
}
