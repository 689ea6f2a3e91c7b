#include "simd.h"

#include <cstdint>
#include <cstring>

// Each version is compiled from the same lines, for another kind of processor. These lines use no inline function of
// the standard library: the linker would keep one of its versions for all.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512vnni")
#define XUANZANG_LANES 16
namespace xuanzang::v4_vnni {
#include "simd.inc"
}
#undef XUANZANG_LANES
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#define XUANZANG_LANES 16
namespace xuanzang::v4 {
#include "simd.inc"
}
#undef XUANZANG_LANES
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define XUANZANG_LANES 8
namespace xuanzang::v3 {
#include "simd.inc"
}
#undef XUANZANG_LANES
#pragma GCC pop_options

#define XUANZANG_VERSIONS
#endif

#define XUANZANG_LANES 4
namespace xuanzang::any {
#include "simd.inc"
}
#undef XUANZANG_LANES

namespace xuanzang {
namespace {

const Loops& best() {
#if defined(XUANZANG_LOOPS)  // Tests want a certain version.
  return XUANZANG_LOOPS::kLoops;
#elif defined(XUANZANG_VERSIONS)
  if (__builtin_cpu_supports("x86-64-v4")) {
    return __builtin_cpu_supports("avx512vnni") ? v4_vnni::kLoops : v4::kLoops;
  }
  if (__builtin_cpu_supports("x86-64-v3")) return v3::kLoops;
#endif
  return any::kLoops;
}

}  // namespace

const Loops& loops() {
  static const Loops& chosen = best();
  return chosen;
}

}  // namespace xuanzang
