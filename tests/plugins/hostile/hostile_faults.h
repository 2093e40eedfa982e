// SPDX-License-Identifier: MIT OR Apache-2.0
// The ways in which a fuser with real kernels misbehaves, one for each library. What the loader
// refuses before anything runs is in ../chain_faults.h.
#ifndef KILN_TESTS_HOSTILE_FAULTS_H
#define KILN_TESTS_HOSTILE_FAULTS_H

#define EVIL_NONE 0
// In its kernels.
#define EVIL_WRONG 1 ///< relu of negative numbers
#define EVIL_NAN 2 ///< a result is NaN
#define EVIL_OVERWRITE 3 ///< one element behind its result
#define EVIL_UNDERWRITE 4 ///< one element before it
#define EVIL_WRITES_INPUT 5 ///< that it was told to read
#define EVIL_TEMP_OVERRUN 6 ///< one element behind its temporary
#define EVIL_NO_COMPILE 7
#define EVIL_UNWRITTEN 8 ///< the last element
#define EVIL_NO_KERNEL 9 ///< the source has none of that name
#define EVIL_HANGS 10 ///< for some seconds
#define EVIL_TAKES_TIME 11 ///< a part of a second, and is right
// In what it claims.
#define EVIL_HUGE_CLAIM 20
#define EVIL_NEGATIVE_CLAIM 21
#define EVIL_ZERO_CLAIM 22 ///< nothing is done in no time
#define EVIL_OVERFLOWING_CLAIM 23
#define EVIL_WILD_CLAIM 24 ///< at the third operation a pointer into the first page
#define EVIL_MANY_VARIANTS 25 ///< offers as many as there are numbers, and describes none
#define EVIL_WILD_VARIANTS 26 ///< says what two variants take by a pointer into the first page
// In its callbacks.
#define EVIL_LOOPS_IN_FUSE 40
#define EVIL_LOOPS_IN_INIT 41
#define EVIL_CRASHES_IN_QUERY 42
#define EVIL_CRASHES_LATE 43 ///< at the third operation: no smoke test sees it
#define EVIL_IMPURE 44 ///< another program each time
#define EVIL_NULL_SOURCE 45
#define EVIL_SLOW 47 ///< thinks about each operation
#define EVIL_DANGLING 46 ///< pointers into the first page
#define EVIL_LOOPS_LATE 48 ///< at the third operation, for ever
#define EVIL_LOOPS_UNTIL_CANCELLED 49 ///< at the third operation, then gives up
#define EVIL_CRASHES_IN_MEASURED 50
#define EVIL_LOOPS_IN_MEASURED 51
#define EVIL_WILD_STORE 52 ///< told what was measured, keeps it from a pointer into the first page

#endif
