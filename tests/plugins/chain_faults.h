// SPDX-License-Identifier: MIT OR Apache-2.0
// The ways in which the tests' fuser can misbehave, one for each library. The names in lower case
// are the files.
#ifndef KILN_TESTS_CHAIN_FAULTS_H
#define KILN_TESTS_CHAIN_FAULTS_H

#define FAULT_NONE 0
#define FAULT_NO_NOTE 1
#define FAULT_WRONG_MAJOR 2
#define FAULT_WRONG_SANITIZER 3
#define FAULT_NEWER_HOST 4
#define FAULT_NO_OPSET 5
#define FAULT_CPU 6
#define FAULT_SIZE_ZERO 7
#define FAULT_SIZE_HUGE 8
#define FAULT_NULL_ENTRY 9
#define FAULT_NO_TABLE 10
#define FAULT_OTHER_ID 11
#define FAULT_BAD_UTF8 12
#define FAULT_NO_FUSER 13
#define FAULT_INIT_FAILS 14
#define FAULT_CRASHES 15
#define FAULT_PRINTS 16
#define FAULT_EXTRA_EXPORT 17
#define FAULT_FUSE_FAILS 18
#define FAULT_LONG_LEN 19
#define FAULT_READY_EMPTY 20
#define FAULT_STATE_VALUE 21
#define FAULT_INFO_LEN 22
#define FAULT_ENDLESS 23
#define FAULT_ZERO_EXTENT 24
#define FAULT_UNDERFLOW 25
#define FAULT_BAD_SYMBOL 26
#define FAULT_DIVIDES 27
#define FAULT_FALSE_GUARD 28
#define FAULT_HUGE_TEMP 29
#define FAULT_READS_TEMP 30
#define FAULT_WRITES_INPUT 31
#define FAULT_NO_RESULT 32
#define FAULT_NO_STEP 33
#define FAULT_BAD_REF 34
#define FAULT_KERNEL_NAME 35
#define FAULT_FORMAT 36
#define FAULT_APPROX 37
#define FAULT_BAD_TEXT 38
#define FAULT_NEWER_TAIL 39
#define FAULT_PROGRAM_FLAG 40
#define FAULT_MANY_SOURCES 41

// Not refused when they are loaded.
#define FAULT_LATE_LEN 100
#define FAULT_NO_CLAIM 101
#define FAULT_ASKS 102
#define FAULT_ASKS_SCALAR 103
#define FAULT_GUARD 104

#endif
