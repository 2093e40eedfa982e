# SPDX-License-Identifier: MIT OR Apache-2.0
# For -DCMAKE_TOOLCHAIN_FILE: Debian's cross compiler for 64-bit ARM, with libraries of that machine below KILN_SYSROOT.
# What runs while Kiln is built, such as gen_ops, runs under qemu.
#
#   apt install gcc-aarch64-linux-gnu qemu-user-static mmdebstrap
#   mmdebstrap --arch=arm64 --variant=extract --include=libc6-dev,libgcc-12-dev,ocl-icd-opencl-dev,... bookworm sysroot
#   cmake -B build-arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DKILN_SYSROOT=$PWD/sysroot
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KILN_SYSROOT)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
if(KILN_SYSROOT)
    set(CMAKE_SYSROOT ${KILN_SYSROOT})
    list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -L ${KILN_SYSROOT})
    set(ENV{PKG_CONFIG_SYSROOT_DIR} ${KILN_SYSROOT})
    set(ENV{PKG_CONFIG_LIBDIR}
        ${KILN_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${KILN_SYSROOT}/usr/share/pkgconfig)
endif()
