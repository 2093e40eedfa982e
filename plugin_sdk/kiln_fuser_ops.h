/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Written by tools/gen_ops from ir/op/ops.def and ir/op/attrs.def. */
#ifndef KILN_FUSER_OPS_H
#define KILN_FUSER_OPS_H

/* Permanent numbers of operators, attributes and element types, as fusers see them. */

#define KF_OP_ABS 1u /* v1: absolute value; of the smallest integer: itself */
#define KF_OP_NEG 2u /* v1: -x; integers wrap */
#define KF_OP_SIGN 3u /* v1: -1, 0 or 1; NaN stays NaN, a zero keeps its sign */
#define KF_OP_EXP 4u /* v1: e raised to x */
#define KF_OP_EXPM1 5u /* v1: exp(x) - 1, accurate near 0 */
#define KF_OP_LOG 6u /* v1: natural logarithm */
#define KF_OP_LOG1P 7u /* v1: log(1 + x), accurate near 0 */
#define KF_OP_ERF 8u /* v1: error function */
#define KF_OP_SQRT 9u /* v1: square root */
#define KF_OP_RSQRT 10u /* v1: 1 / sqrt(x) */
#define KF_OP_RECIP 11u /* v1: 1 / x */
#define KF_OP_SIN 12u /* v1: sine of x in radians */
#define KF_OP_COS 13u /* v1: cosine of x in radians */
#define KF_OP_TAN 14u /* v1: tangent of x in radians */
#define KF_OP_SINH 15u /* v1: hyperbolic sine */
#define KF_OP_COSH 16u /* v1: hyperbolic cosine */
#define KF_OP_TANH 17u /* v1: hyperbolic tangent */
#define KF_OP_ASIN 18u /* v1: inverse sine */
#define KF_OP_ACOS 19u /* v1: inverse cosine */
#define KF_OP_ATAN 20u /* v1: inverse tangent */
#define KF_OP_ASINH 21u /* v1: inverse hyperbolic sine */
#define KF_OP_ACOSH 22u /* v1: inverse hyperbolic cosine */
#define KF_OP_ATANH 23u /* v1: inverse hyperbolic tangent */
#define KF_OP_ROUND 24u /* v1: nearest integer, halves to even */
#define KF_OP_FLOOR 25u /* v1: largest integer not above x */
#define KF_OP_CEIL 26u /* v1: smallest integer not below x */
#define KF_OP_TRUNC 27u /* v1: integer part of x */
#define KF_OP_RELU 28u /* v1: max(x, 0); NaN stays NaN */
#define KF_OP_SIGMOID 29u /* v1: 1 / (1 + exp(-x)) */
#define KF_OP_IS_NAN 30u /* v1: whether x is not a number */
#define KF_OP_IS_INF 31u /* v1: whether x is an infinity */
#define KF_OP_LOGICAL_NOT 32u /* v1: not x */
#define KF_OP_BITWISE_NOT 33u /* v1: all bits of x inverted */
#define KF_OP_ADD 40u /* v1: a + b; integers wrap */
#define KF_OP_SUB 41u /* v1: a - b; integers wrap */
#define KF_OP_MUL 42u /* v1: a * b; integers wrap */
#define KF_OP_DIV 43u /* v1: a / b; integers round to 0, x/0 = 0, smallest/-1 = smallest */
#define KF_OP_REM 44u /* v1: a - b * floor(a / b): the sign of b; integer x%0 = 0 */
#define KF_OP_FMOD 45u /* v1: a - b * trunc(a / b): the sign of a; integer x%0 = 0 */
#define KF_OP_POW 46u /* v1: a raised to b; integers wrap, a negative exponent truncates the true value, 0 to it is 0 */
#define KF_OP_MINIMUM 47u /* v1: the smaller; NaN if either is NaN */
#define KF_OP_MAXIMUM 48u /* v1: the larger; NaN if either is NaN */
#define KF_OP_ATAN2 49u /* v1: angle of the point (b, a) */
#define KF_OP_HYPOT 50u /* v1: sqrt(a*a + b*b) without overflow */
#define KF_OP_EQUAL 51u /* v1: a == b; NaN equals nothing */
#define KF_OP_NOT_EQUAL 52u /* v1: a != b */
#define KF_OP_LESS 53u /* v1: a < b */
#define KF_OP_LESS_EQUAL 54u /* v1: a <= b */
#define KF_OP_GREATER 55u /* v1: a > b */
#define KF_OP_GREATER_EQUAL 56u /* v1: a >= b */
#define KF_OP_LOGICAL_AND 57u /* v1: a and b */
#define KF_OP_LOGICAL_OR 58u /* v1: a or b */
#define KF_OP_LOGICAL_XOR 59u /* v1: either a or b */
#define KF_OP_BITWISE_AND 60u /* v1: bits set in both */
#define KF_OP_BITWISE_OR 61u /* v1: bits set in any */
#define KF_OP_BITWISE_XOR 62u /* v1: bits set in one */
#define KF_OP_SHIFT_LEFT 63u /* v1: a * 2^b; 0 when b is negative or the width or more */
#define KF_OP_SHIFT_RIGHT 64u /* v1: a shifted right, with the sign when signed; 0 when b is negative or the width or more */
#define KF_OP_ADD_SCALAR 70u /* v1: x + value */
#define KF_OP_SUB_SCALAR 71u /* v1: x - value */
#define KF_OP_MUL_SCALAR 72u /* v1: x * value */
#define KF_OP_DIV_SCALAR 73u /* v1: x / value, as div */
#define KF_OP_REM_SCALAR 74u /* v1: as rem with value */
#define KF_OP_POW_SCALAR 75u /* v1: as pow with value */
#define KF_OP_CLAMP_MIN 76u /* v1: max(x, value); NaN stays NaN */
#define KF_OP_CLAMP_MAX 77u /* v1: min(x, value); NaN stays NaN */
#define KF_OP_EQUAL_SCALAR 78u /* v1: x == value */
#define KF_OP_NOT_EQUAL_SCALAR 79u /* v1: x != value */
#define KF_OP_LESS_SCALAR 80u /* v1: x < value */
#define KF_OP_LESS_EQUAL_SCALAR 81u /* v1: x <= value */
#define KF_OP_GREATER_SCALAR 82u /* v1: x > value */
#define KF_OP_GREATER_EQUAL_SCALAR 83u /* v1: x >= value */
#define KF_OP_BITWISE_AND_SCALAR 84u /* v1: as bitwise_and with value */
#define KF_OP_BITWISE_OR_SCALAR 85u /* v1: as bitwise_or with value */
#define KF_OP_BITWISE_XOR_SCALAR 86u /* v1: as bitwise_xor with value */
#define KF_OP_SHIFT_LEFT_SCALAR 87u /* v1: as shift_left with value */
#define KF_OP_SHIFT_RIGHT_SCALAR 88u /* v1: as shift_right with value */
#define KF_OP_CLAMP 100u /* v1: min(max(x, min), max); NaN stays NaN */
#define KF_OP_LEAKY_RELU 101u /* v1: x where x >= 0, else slope * x */
#define KF_OP_GELU 106u /* v1: x * P(X <= x) of the normal distribution; approximate: by tanh; composite, recorded as others: no fuser sees it */
#define KF_OP_WHERE 102u /* v1: a where mask, else b; the mask is bool */
#define KF_OP_MASK_FILL 103u /* v1: value where mask, else x; the mask is bool */
#define KF_OP_CAST 104u /* v1: x as dtype; float to integer saturates and truncates, NaN gives 0; integers wrap; bool is x != 0 */
#define KF_OP_ENCODE_SMALL 89u /* v1: the bits of x, as a number, in the small float dtype of number value (f8e4m3fn is 20): the nearest, as a cast to it */
#define KF_OP_DECODE_SMALL 90u /* v1: what bits x, an integer from 0 to 255, stand for in the small float dtype of number value */
#define KF_OP_CONTIGUOUS 105u /* v1: a copy of x with dense row-major layout */
#define KF_OP_PRELU 107u /* v1: slope * x where x < 0, else x; composite, recorded as others: no fuser sees it */
#define KF_OP_HARD_SIGMOID 108u /* v1: min(max(alpha * x + beta, 0), 1); composite, recorded as others: no fuser sees it */
#define KF_OP_LOG_SIGMOID 109u /* v1: logarithm of sigmoid, computed without it; composite, recorded as others: no fuser sees it */
#define KF_OP_RELU_BACKWARD 110u /* v1: grad where output = relu(x) is above 0, else 0; composite, recorded as others: no fuser sees it */
#define KF_OP_GELU_BACKWARD 111u /* v1: grad * derivative of gelu at x; composite, recorded as others: no fuser sees it */
#define KF_OP_SIGMOID_BACKWARD 112u /* v1: grad * output * (1 - output), output = sigmoid(x); composite, recorded as others: no fuser sees it */
#define KF_OP_LOG_SIGMOID_BACKWARD 113u /* v1: grad * sigmoid(-x); composite, recorded as others: no fuser sees it */
#define KF_OP_SILU 114u /* v1: x * sigmoid(x), also called swish; composite, recorded as others: no fuser sees it */
#define KF_OP_SOFTPLUS 115u /* v1: log(1 + exp(x)) without overflow; composite, recorded as others: no fuser sees it */
#define KF_OP_ELU 116u /* v1: x where x > 0, else alpha * (exp(x) - 1); composite, recorded as others: no fuser sees it */
#define KF_OP_MISH 117u /* v1: x * tanh(softplus(x)); composite, recorded as others: no fuser sees it */
#define KF_OP_HARD_SWISH 118u /* v1: x * min(max(x / 6 + 1 / 2, 0), 1); composite, recorded as others: no fuser sees it */
#define KF_OP_RESHAPE 120u /* v1: x with other lengths, same elements in row-major order; one length may be -1 */
#define KF_OP_EXPAND 121u /* v1: x broadcast to shape; -1 keeps a length */
#define KF_OP_PERMUTE 122u /* v1: axis i of the result is axis axes[i] of x; empty: reversed */
#define KF_OP_SLICE 123u /* v1: x[starts:ends:steps] as in Python, for every axis in order */
#define KF_OP_FLIP 124u /* v1: x reversed along axes; empty: along all */
#define KF_OP_UNFOLD 126u /* v1: windows of x along axis; their elements run along a new last axis */
#define KF_OP_DIAGONAL 127u /* v1: elements [.., i, i + offset] of x; the diagonal is the last axis */
#define KF_OP_SUM 140u /* v1: sum; of nothing: 0 */
#define KF_OP_MEAN 141u /* v1: arithmetic mean; of nothing: NaN */
#define KF_OP_PROD 142u /* v1: product; of nothing: 1 */
#define KF_OP_MAX 143u /* v1: largest; NaN if any is NaN; of nothing: the smallest value of the dtype, -inf for floats */
#define KF_OP_MIN 144u /* v1: smallest; NaN if any is NaN; of nothing: the largest value of the dtype, inf for floats */
#define KF_OP_MAX_ABS 145u /* v1: largest absolute value; NaN if any is NaN; of nothing: 0 */
#define KF_OP_ANY 146u /* v1: whether any is true; of nothing: false */
#define KF_OP_ALL 147u /* v1: whether all are true; of nothing: true */
#define KF_OP_ARGMAX 150u /* v1: index of the largest along axis; NaN counts as largest */
#define KF_OP_ARGMIN 151u /* v1: index of the smallest along axis; NaN counts as smallest */
#define KF_OP_MAX_WITH_INDICES 288u /* v1: largest along axis and its index, the first of equals; NaN counts as largest; composite, recorded as others where a device has no kernel for it */
#define KF_OP_MIN_WITH_INDICES 289u /* v1: smallest along axis and its index, the first of equals; NaN counts as smallest; composite, recorded as others where a device has no kernel for it */
#define KF_OP_MATMUL 160u /* v1: matrix product over the last two axes, the others broadcast; rank 1 as in NumPy */
#define KF_OP_MATMUL_INTEGER 311u /* v1: matmul of (a - a_zero) with (b - b_zero), each i8 or u8, in i32; a_zero is one number or one for each row of a, b_zero one or one for each column of b */
#define KF_OP_CONV 161u /* v1: cross-correlation of x [n,c,..] with weight [o,c/groups,..], plus bias [o] */
#define KF_OP_CONV_INTEGER 308u /* v1: conv of (x - x_zero) with (weight - weight_zero), each i8 or u8, in i32; x_zero is one number, weight_zero one or one for each of its o; padding is x_zero */
#define KF_OP_CONV_TRANSPOSE 164u /* v1: what conv gives back to its x: x [n,c,..], weight [c,o/groups,..], plus bias [o]; padding is cut off, output_padding appended; composite, recorded as others where a device has no kernel for it */
#define KF_OP_CONV_X_BACKWARD 167u /* v1: gradient of conv for its x, which has the shape; composite, recorded as others where a device has no kernel for it */
#define KF_OP_CONV_WEIGHT_BACKWARD 168u /* v1: gradient of conv for its weight, which has the shape; composite, recorded as others where a device has no kernel for it */
#define KF_OP_CONV_BIAS_BACKWARD 169u /* v1: gradient of conv and conv_transpose for their bias: the sum over all axes but channels; composite, recorded as others where a device has no kernel for it */
#define KF_OP_CONV_TRANSPOSE_X_BACKWARD 170u /* v1: gradient of conv_transpose for its x, which has the shape; composite, recorded as others where a device has no kernel for it */
#define KF_OP_CONV_TRANSPOSE_WEIGHT_BACKWARD 171u /* v1: gradient of conv_transpose for its weight, which has the shape; composite, recorded as others where a device has no kernel for it */
#define KF_OP_IM2COL 304u /* v1: the windows of x [n,c,..] as columns [n,c*kernel,windows]; 0 in the padding */
#define KF_OP_COL2IM 305u /* v1: sums of columns [n,c*kernel,windows] at their places in [n,c,output_size]; what im2col gives back to its x */
#define KF_OP_DEFORM_IM2COL 309u /* v1: im2col of x [n,c,h,w] with each element read at its place plus offset [n,offset_groups*kernel*2,..], between elements, 0 outside, times mask [n,offset_groups*kernel,..] or one number */
#define KF_OP_DEFORM_IM2COL_BACKWARD 310u /* v1: gradients of deform_im2col for x, offset and mask */
#define KF_OP_DEFORM_CONV 165u /* v1: conv of two spatial axes over deform_im2col; without a mask but with a bias, the mask is one 1; composite, recorded as others where a device has no kernel for it */
#define KF_OP_DEFORM_CONV_BACKWARD 166u /* v1: gradients of deform_conv for x, offset, weight, mask and bias; composite, recorded as others where a device has no kernel for it */
#define KF_OP_MAX_POOL 162u /* v1: largest of each window of x [n,c,..]; padding never wins; NaN propagates */
#define KF_OP_AVG_POOL 163u /* v1: mean of each window of x [n,c,..] */
#define KF_OP_LP_POOL 179u /* v1: (sum of |x|^p)^(1/p) of each window of x [n,c,..] */
#define KF_OP_MAX_POOL_WITH_INDICES 173u /* v1: max_pool, and the places in the plane of spatial axes: of equal elements the first, -1 in a window of padding alone */
#define KF_OP_MAX_POOL_BACKWARD 174u /* v1: gradient of max_pool for its x, which has the shape; an index outside the window gives nothing */
#define KF_OP_AVG_POOL_BACKWARD 175u /* v1: gradient of avg_pool for its x, which has the shape */
#define KF_OP_ADAPTIVE_AVG_POOL 176u /* v1: means of x [n,c,..] over output_size windows, each from floor(i*in/out) to ceil((i+1)*in/out) */
#define KF_OP_ADAPTIVE_MAX_POOL 178u /* v1: the largest of each window of adaptive_avg_pool, and its place as max_pool_with_indices has it */
#define KF_OP_ADAPTIVE_AVG_POOL_BACKWARD 177u /* v1: gradient of adaptive_avg_pool for its x, which has the shape */
#define KF_OP_MAX_UNPOOL 300u /* v1: x at the places that indices say, of a plane of the shape, else 0; the last of several; an index outside is dropped */
#define KF_OP_INTERPOLATE 301u /* v1: x with other lengths of its last axes; mode linear, cubic, lanczos3, nearest (halves down), nearest_up, nearest_floor, nearest_ceil */
#define KF_OP_INTERPOLATE_BACKWARD 302u /* v1: gradient of interpolate for its x, which has the shape */
#define KF_OP_GRID_SAMPLE 303u /* v1: x [n,c,..] at points grid [n,..,axes], the last axis of x first, from -1 to 1; mode linear, nearest or cubic */
#define KF_OP_ROI_ALIGN 306u /* v1: means (mode avg) or largest weighted elements (max) of bins of boxes [r,4] (x1,y1,x2,y2) in x [n,c,h,w]; a batch index outside is clamped */
#define KF_OP_SOFTMAX 180u /* v1: exp(x - max) / sum of it along axis */
#define KF_OP_LOG_SOFTMAX 181u /* v1: logarithm of softmax, computed without it */
#define KF_OP_BATCH_NORM 182u /* v1: (x - mean) / sqrt(variance + epsilon) * scale + bias, each of length x.dims[1] */
#define KF_OP_SOFTMIN 183u /* v1: softmax of -x along axis; composite, recorded as others where a device has no kernel for it */
#define KF_OP_SOFTMAX_BACKWARD 184u /* v1: output * (grad - sum of grad * output along axis), output = softmax(x); composite, recorded as others where a device has no kernel for it */
#define KF_OP_LOG_SOFTMAX_BACKWARD 185u /* v1: grad - exp(output) * sum of grad along axis, output = log_softmax(x); composite, recorded as others where a device has no kernel for it */
#define KF_OP_LAYER_NORM 186u /* v1: (x - mean) / sqrt(variance + epsilon) * scale + bias, over the axes from axis on; scale and bias broadcast to them; composite, recorded as others where a device has no kernel for it */
#define KF_OP_RMS_NORM 187u /* v1: x / sqrt(mean of x * x + epsilon) * scale, over the axes from axis on; scale broadcasts to them; composite, recorded as others where a device has no kernel for it */
#define KF_OP_GROUP_NORM 188u /* v1: as layer_norm over each group of channels (axis 1) and the axes after; scale and bias for each channel; composite, recorded as others where a device has no kernel for it */
#define KF_OP_INSTANCE_NORM 189u /* v1: group_norm with a group for each channel; composite, recorded as others where a device has no kernel for it */
#define KF_OP_LAYER_NORM_BACKWARD 190u /* v1: derivatives of layer_norm by x, scale and bias; scale of rank 0 stands for the same everywhere; composite, recorded as others where a device has no kernel for it */
#define KF_OP_RMS_NORM_BACKWARD 191u /* v1: derivatives of rms_norm by x and scale; composite, recorded as others where a device has no kernel for it */
#define KF_OP_GROUP_NORM_BACKWARD 192u /* v1: derivatives of group_norm by x, scale and bias; composite, recorded as others where a device has no kernel for it */
#define KF_OP_INSTANCE_NORM_BACKWARD 193u /* v1: derivatives of instance_norm by x, scale and bias; composite, recorded as others where a device has no kernel for it */
#define KF_OP_BATCH_NORM_TRAIN 194u /* v1: batch_norm with mean and variance of this x; and running * momentum + this * (1 - momentum) of both; composite, recorded as others where a device has no kernel for it */
#define KF_OP_BATCH_NORM_BACKWARD 195u /* v1: derivatives of batch_norm_train by x, scale and bias; composite, recorded as others where a device has no kernel for it */
#define KF_OP_GATHER 200u /* v1: out[i][j].. = x[..indices[i][j]..] along axis; indices (i32, i64) as long as x elsewhere or shorter */
#define KF_OP_SELECT 201u /* v1: x at indices (i32, i64, rank 1) along axis */
#define KF_OP_GATHER_ND 267u /* v1: x at the tuples that indices (i32, i64) hold along their last axis; batch_dims leading axes are shared */
#define KF_OP_SCATTER 268u /* v1: x with out[..indices[i][j]..] = values[i][j] along axis, or combined with it by mode, in order; an index outside is dropped */
#define KF_OP_SCATTER_ND 269u /* v1: x with parts at the tuples of indices replaced by values, or combined with them by mode, in order; a tuple outside is dropped */
#define KF_OP_SELECT_ASSIGN 270u /* v1: x with its parts at indices (rank 1) along axis replaced by values, or combined with them by mode, in order; an index outside is dropped */
#define KF_OP_SLICE_ASSIGN 271u /* v1: x with x[starts:ends:steps] replaced by value */
#define KF_OP_EMBEDDING 272u /* v1: rows of weights [n,d] at indices of any shape; composite, recorded as others where a device has no kernel for it */
#define KF_OP_EMBEDDING_BACKWARD 273u /* v1: count rows, each the sum of the rows of grad whose index names it, in order; an index outside is dropped; composite, recorded as others where a device has no kernel for it */
#define KF_OP_ONE_HOT 265u /* v1: values[1] where the place along the new axis of length count is the index, else values[0]; an index outside hits nothing; composite, recorded as others where a device has no kernel for it */
#define KF_OP_REVERSE_SEQUENCE 266u /* v1: the first lengths[b] elements along axis reversed for each b along batch_axis; lengths are clamped; composite, recorded as others where a device has no kernel for it */
#define KF_OP_REPEAT 260u /* v1: x beside itself repeats[i] times along axis i (tile); composite, recorded as others where a device has no kernel for it */
#define KF_OP_ROLL 261u /* v1: x moved by shifts[i] places along axes[i]; what leaves at the end comes in at the beginning; composite, recorded as others where a device has no kernel for it */
#define KF_OP_TRIL 262u /* v1: x with 0 above diagonal offset of its last two axes; composite, recorded as others where a device has no kernel for it */
#define KF_OP_TRIU 263u /* v1: x with 0 below diagonal offset of its last two axes; composite, recorded as others where a device has no kernel for it */
#define KF_OP_EYE 264u /* v1: a matrix of 0 with 1 on diagonal offset; composite, recorded as others where a device has no kernel for it */
#define KF_OP_DEPTH_TO_SPACE 291u /* v1: x [n,c,h,w]: each size * size channels become a block of the plane; mode dcr: the place in the block is the outer part of the channel, crd: the inner; composite, recorded as others where a device has no kernel for it */
#define KF_OP_SPACE_TO_DEPTH 292u /* v1: x [n,c,h,w]: each block of size * size places becomes channels; the inverse of depth_to_space; composite, recorded as others where a device has no kernel for it */
#define KF_OP_CUM_SUM 280u /* v1: sum of the elements up to each one; exclusive: without it; reverse: from it on */
#define KF_OP_CUM_PROD 281u /* v1: product of the elements up to each one; exclusive and reverse as cum_sum */
#define KF_OP_CUM_MAX 282u /* v1: largest of the elements up to each one, NaN once one is NaN; of none: as max */
#define KF_OP_CUM_MIN 283u /* v1: smallest of the elements up to each one, NaN once one is NaN; of none: as min */
#define KF_OP_SORT 284u /* v1: x in order along axis; which of -0 and 0 comes first is left open */
#define KF_OP_ARGSORT 285u /* v1: indices that put x in order along axis; equals keep their order */
#define KF_OP_SORT_WITH_INDICES 286u /* v1: x in order along axis and where each element was; equals keep their order */
#define KF_OP_TOP_K 287u /* v1: the count largest along axis from the largest down, or the smallest up, and their indices; of equals the first */
#define KF_OP_CROSS 290u /* v1: cross product along axis, of length 3 in both; the others broadcast; composite, recorded as others where a device has no kernel for it */
#define KF_OP_ARGWHERE 460u /* v1: [count, rank]: indices of the first `count` true elements in row-major order; 0 beyond the last */
#define KF_OP_NMS 461u /* v1: [b, classes, min(count, n)]: boxes [b,n,4] (y1, x1, y2, x2) by falling score [b,classes,n] that none before covers; -1 beyond the last */
#define KF_OP_TREE_ENSEMBLE 462u /* v1: [n, count]: what the leaves give that each row of x [n,columns] reaches from every root. Node i asks whether column features[i] / 2 is at most thresholds[i], NaN being so where features[i] is odd: then i + 1 is next, else others[i]. A leaf has -1 - (its weights) as features[i], and others[i] is the first of them: weights[k] goes to column targets[k]. mode sum, min or max, 0 of none; a way that leads back or out has no leaf */
#define KF_OP_CONCAT 220u /* v1: inputs one after the other along axis */
#define KF_OP_PAD 221u /* v1: x with elements added; mode constant, edge or reflect; negative padding removes */
#define KF_OP_FULL 222u /* v1: every element is value */
#define KF_OP_ARANGE 223u /* v1: start + i * step for i in [0, count) */
#define KF_OP_RANDOM_UNIFORM 400u /* v1: uniform numbers, min <= x < max */
#define KF_OP_RANDOM_INT 401u /* v1: uniform integers, min <= x <= max */
#define KF_OP_RANDOM_NORMAL 402u /* v1: normally distributed numbers */
#define KF_OP_RANDOM_BERNOULLI 403u /* v1: 1 with a probability, else 0 */
#define KF_OP_LINEAR 340u /* v1: x [.., i] times weight [i, o], plus bias [o]; composite, recorded as others where a device has no kernel for it */
#define KF_OP_LINEAR_X_BACKWARD 341u /* v1: derivative of linear by x: grad [.., o] times weight [i, o] turned; composite, recorded as others where a device has no kernel for it */
#define KF_OP_LINEAR_WEIGHT_BACKWARD 342u /* v1: derivative of linear by weight: the sum of x [.., i] turned times grad [.., o]; composite, recorded as others where a device has no kernel for it */
#define KF_OP_LINEAR_BIAS_BACKWARD 343u /* v1: derivative of linear by bias: the sum of grad [.., o] over all axes but the last; composite, recorded as others where a device has no kernel for it */
#define KF_OP_ATTENTION 344u /* v1: softmax of query [.., q, d] times key [.., k, d] turned and scaled, times value [.., k, v]; where mask (false of rank 0 where only bias is given) is true, a key is not seen; bias is added to the scores; who sees nothing gets NaN; composite, recorded as others where a device has no kernel for it */
#define KF_OP_EINSUM 345u /* v1: sum of products over all letters that the result has not, as NumPy's einsum; a repeated letter runs along the diagonal; composite, recorded as others where a device has no kernel for it */
#define KF_OP_LSTM 350u /* v1: x [t, b, i], weight [d, 4h, i], recurrence [d, 4h, h], gates in the order input, output, forget, cell; bias [d, 8h] of x and then of the state; states [d, b, h]; peephole [d, 3h]: input, output, forget; an input to be skipped is 0 of rank 0; lengths [b] end sequences early, whose values are 0 then; composite, recorded as others where a device has no kernel for it */
#define KF_OP_GRU 351u /* v1: as lstm, gates in the order update, reset, hidden; composite, recorded as others where a device has no kernel for it */
#define KF_OP_RNN 352u /* v1: as lstm with one gate, whose activation is the state; composite, recorded as others where a device has no kernel for it */
#define KF_OP_FFT 355u /* v1: discrete Fourier transform along axis; imaginary absent: 0 */
#define KF_OP_RFFT 356u /* v1: the first length / 2 + 1 elements of fft of a real signal, which is cut or filled with zeros to length; composite, recorded as others where a device has no kernel for it */
#define KF_OP_IRFFT 357u /* v1: the real signal of length elements, 2 * (n - 1) when not given, of which this is rfft; composite, recorded as others where a device has no kernel for it */
#define KF_OP_CTC_LOSS 360u /* v1: connectionist temporal classification: -log of the probability of targets [b, s] under log_probs [t, b, classes]; infinite where no path gives them; lengths are clamped to t and s, labels to the classes */
#define KF_OP_CTC_LOSS_BACKWARD 361u /* v1: derivative of ctc_loss by log_probs, each an input of its own; 0 where the loss is infinite */
#define KF_OP_DET 362u /* v1: determinant of the square matrices in the last two axes; of no rows: 1 */
#define KF_OP_RANDOM_PERMUTATION 404u /* v1: 0 to count - 1 in random order: the order of as many 64-bit numbers; composite, recorded as others where a device has no kernel for it */
#define KF_OP_QUANTIZE 410u /* v1: x / scale of its block (/ global) to the nearest value of dtype, halves to even, outside clamped; NaN and x/0 are 0 */
#define KF_OP_DEQUANTIZE 411u /* v1: values times the scale of their block (times global), rounded once to dtype */
#define KF_OP_QUANTIZE_DYNAMIC 412u /* v1: quantize with the scales 2 r / (highest - lowest), r of each block by mode: min_max (largest magnitude) or abs_mean; composite, recorded as others where a device has no kernel for it */
#define KF_OP_QUANTIZED_SCALES 413u /* v1: the scales of the blocks of x, one axis of blocks for each axis */
#define KF_OP_MATMUL_QUANTIZED 414u /* v1: matmul in dtype of operands of which any may be quantised; composite, recorded as others where a device has no kernel for it */
#define KF_OP_LINEAR_QUANTIZED 415u /* v1: linear with a quantised weight [i, o]; composite, recorded as others where a device has no kernel for it */
#define KF_OP_ALL_REDUCE 440u /* v1: x of all members of a group combined; not to be used before collective_sync; of a group of one: x */
#define KF_OP_COLLECTIVE_SYNC 441u /* v1: x, the result of an all_reduce, which the device waits for */
#define KF_OP_CUSTOM 470u /* v1: the operator of a plugin with this name and version; as many outputs as it says */
#define KF_OP_DROP 250u /* v1: x is not used any more */

#define KF_OPSET_MAX 470u /* the largest number above */

/* Names of operators, for messages. */

#define KF_NAME_ABS "abs"
#define KF_NAME_NEG "neg"
#define KF_NAME_SIGN "sign"
#define KF_NAME_EXP "exp"
#define KF_NAME_EXPM1 "expm1"
#define KF_NAME_LOG "log"
#define KF_NAME_LOG1P "log1p"
#define KF_NAME_ERF "erf"
#define KF_NAME_SQRT "sqrt"
#define KF_NAME_RSQRT "rsqrt"
#define KF_NAME_RECIP "recip"
#define KF_NAME_SIN "sin"
#define KF_NAME_COS "cos"
#define KF_NAME_TAN "tan"
#define KF_NAME_SINH "sinh"
#define KF_NAME_COSH "cosh"
#define KF_NAME_TANH "tanh"
#define KF_NAME_ASIN "asin"
#define KF_NAME_ACOS "acos"
#define KF_NAME_ATAN "atan"
#define KF_NAME_ASINH "asinh"
#define KF_NAME_ACOSH "acosh"
#define KF_NAME_ATANH "atanh"
#define KF_NAME_ROUND "round"
#define KF_NAME_FLOOR "floor"
#define KF_NAME_CEIL "ceil"
#define KF_NAME_TRUNC "trunc"
#define KF_NAME_RELU "relu"
#define KF_NAME_SIGMOID "sigmoid"
#define KF_NAME_IS_NAN "is_nan"
#define KF_NAME_IS_INF "is_inf"
#define KF_NAME_LOGICAL_NOT "logical_not"
#define KF_NAME_BITWISE_NOT "bitwise_not"
#define KF_NAME_ADD "add"
#define KF_NAME_SUB "sub"
#define KF_NAME_MUL "mul"
#define KF_NAME_DIV "div"
#define KF_NAME_REM "rem"
#define KF_NAME_FMOD "fmod"
#define KF_NAME_POW "pow"
#define KF_NAME_MINIMUM "minimum"
#define KF_NAME_MAXIMUM "maximum"
#define KF_NAME_ATAN2 "atan2"
#define KF_NAME_HYPOT "hypot"
#define KF_NAME_EQUAL "equal"
#define KF_NAME_NOT_EQUAL "not_equal"
#define KF_NAME_LESS "less"
#define KF_NAME_LESS_EQUAL "less_equal"
#define KF_NAME_GREATER "greater"
#define KF_NAME_GREATER_EQUAL "greater_equal"
#define KF_NAME_LOGICAL_AND "logical_and"
#define KF_NAME_LOGICAL_OR "logical_or"
#define KF_NAME_LOGICAL_XOR "logical_xor"
#define KF_NAME_BITWISE_AND "bitwise_and"
#define KF_NAME_BITWISE_OR "bitwise_or"
#define KF_NAME_BITWISE_XOR "bitwise_xor"
#define KF_NAME_SHIFT_LEFT "shift_left"
#define KF_NAME_SHIFT_RIGHT "shift_right"
#define KF_NAME_ADD_SCALAR "add_scalar"
#define KF_NAME_SUB_SCALAR "sub_scalar"
#define KF_NAME_MUL_SCALAR "mul_scalar"
#define KF_NAME_DIV_SCALAR "div_scalar"
#define KF_NAME_REM_SCALAR "rem_scalar"
#define KF_NAME_POW_SCALAR "pow_scalar"
#define KF_NAME_CLAMP_MIN "clamp_min"
#define KF_NAME_CLAMP_MAX "clamp_max"
#define KF_NAME_EQUAL_SCALAR "equal_scalar"
#define KF_NAME_NOT_EQUAL_SCALAR "not_equal_scalar"
#define KF_NAME_LESS_SCALAR "less_scalar"
#define KF_NAME_LESS_EQUAL_SCALAR "less_equal_scalar"
#define KF_NAME_GREATER_SCALAR "greater_scalar"
#define KF_NAME_GREATER_EQUAL_SCALAR "greater_equal_scalar"
#define KF_NAME_BITWISE_AND_SCALAR "bitwise_and_scalar"
#define KF_NAME_BITWISE_OR_SCALAR "bitwise_or_scalar"
#define KF_NAME_BITWISE_XOR_SCALAR "bitwise_xor_scalar"
#define KF_NAME_SHIFT_LEFT_SCALAR "shift_left_scalar"
#define KF_NAME_SHIFT_RIGHT_SCALAR "shift_right_scalar"
#define KF_NAME_CLAMP "clamp"
#define KF_NAME_LEAKY_RELU "leaky_relu"
#define KF_NAME_GELU "gelu"
#define KF_NAME_WHERE "where"
#define KF_NAME_MASK_FILL "mask_fill"
#define KF_NAME_CAST "cast"
#define KF_NAME_ENCODE_SMALL "encode_small"
#define KF_NAME_DECODE_SMALL "decode_small"
#define KF_NAME_CONTIGUOUS "contiguous"
#define KF_NAME_PRELU "prelu"
#define KF_NAME_HARD_SIGMOID "hard_sigmoid"
#define KF_NAME_LOG_SIGMOID "log_sigmoid"
#define KF_NAME_RELU_BACKWARD "relu_backward"
#define KF_NAME_GELU_BACKWARD "gelu_backward"
#define KF_NAME_SIGMOID_BACKWARD "sigmoid_backward"
#define KF_NAME_LOG_SIGMOID_BACKWARD "log_sigmoid_backward"
#define KF_NAME_SILU "silu"
#define KF_NAME_SOFTPLUS "softplus"
#define KF_NAME_ELU "elu"
#define KF_NAME_MISH "mish"
#define KF_NAME_HARD_SWISH "hard_swish"
#define KF_NAME_RESHAPE "reshape"
#define KF_NAME_EXPAND "expand"
#define KF_NAME_PERMUTE "permute"
#define KF_NAME_SLICE "slice"
#define KF_NAME_FLIP "flip"
#define KF_NAME_UNFOLD "unfold"
#define KF_NAME_DIAGONAL "diagonal"
#define KF_NAME_SUM "sum"
#define KF_NAME_MEAN "mean"
#define KF_NAME_PROD "prod"
#define KF_NAME_MAX "max"
#define KF_NAME_MIN "min"
#define KF_NAME_MAX_ABS "max_abs"
#define KF_NAME_ANY "any"
#define KF_NAME_ALL "all"
#define KF_NAME_ARGMAX "argmax"
#define KF_NAME_ARGMIN "argmin"
#define KF_NAME_MAX_WITH_INDICES "max_with_indices"
#define KF_NAME_MIN_WITH_INDICES "min_with_indices"
#define KF_NAME_MATMUL "matmul"
#define KF_NAME_MATMUL_INTEGER "matmul_integer"
#define KF_NAME_CONV "conv"
#define KF_NAME_CONV_INTEGER "conv_integer"
#define KF_NAME_CONV_TRANSPOSE "conv_transpose"
#define KF_NAME_CONV_X_BACKWARD "conv_x_backward"
#define KF_NAME_CONV_WEIGHT_BACKWARD "conv_weight_backward"
#define KF_NAME_CONV_BIAS_BACKWARD "conv_bias_backward"
#define KF_NAME_CONV_TRANSPOSE_X_BACKWARD "conv_transpose_x_backward"
#define KF_NAME_CONV_TRANSPOSE_WEIGHT_BACKWARD "conv_transpose_weight_backward"
#define KF_NAME_IM2COL "im2col"
#define KF_NAME_COL2IM "col2im"
#define KF_NAME_DEFORM_IM2COL "deform_im2col"
#define KF_NAME_DEFORM_IM2COL_BACKWARD "deform_im2col_backward"
#define KF_NAME_DEFORM_CONV "deform_conv"
#define KF_NAME_DEFORM_CONV_BACKWARD "deform_conv_backward"
#define KF_NAME_MAX_POOL "max_pool"
#define KF_NAME_AVG_POOL "avg_pool"
#define KF_NAME_LP_POOL "lp_pool"
#define KF_NAME_MAX_POOL_WITH_INDICES "max_pool_with_indices"
#define KF_NAME_MAX_POOL_BACKWARD "max_pool_backward"
#define KF_NAME_AVG_POOL_BACKWARD "avg_pool_backward"
#define KF_NAME_ADAPTIVE_AVG_POOL "adaptive_avg_pool"
#define KF_NAME_ADAPTIVE_MAX_POOL "adaptive_max_pool"
#define KF_NAME_ADAPTIVE_AVG_POOL_BACKWARD "adaptive_avg_pool_backward"
#define KF_NAME_MAX_UNPOOL "max_unpool"
#define KF_NAME_INTERPOLATE "interpolate"
#define KF_NAME_INTERPOLATE_BACKWARD "interpolate_backward"
#define KF_NAME_GRID_SAMPLE "grid_sample"
#define KF_NAME_ROI_ALIGN "roi_align"
#define KF_NAME_SOFTMAX "softmax"
#define KF_NAME_LOG_SOFTMAX "log_softmax"
#define KF_NAME_BATCH_NORM "batch_norm"
#define KF_NAME_SOFTMIN "softmin"
#define KF_NAME_SOFTMAX_BACKWARD "softmax_backward"
#define KF_NAME_LOG_SOFTMAX_BACKWARD "log_softmax_backward"
#define KF_NAME_LAYER_NORM "layer_norm"
#define KF_NAME_RMS_NORM "rms_norm"
#define KF_NAME_GROUP_NORM "group_norm"
#define KF_NAME_INSTANCE_NORM "instance_norm"
#define KF_NAME_LAYER_NORM_BACKWARD "layer_norm_backward"
#define KF_NAME_RMS_NORM_BACKWARD "rms_norm_backward"
#define KF_NAME_GROUP_NORM_BACKWARD "group_norm_backward"
#define KF_NAME_INSTANCE_NORM_BACKWARD "instance_norm_backward"
#define KF_NAME_BATCH_NORM_TRAIN "batch_norm_train"
#define KF_NAME_BATCH_NORM_BACKWARD "batch_norm_backward"
#define KF_NAME_GATHER "gather"
#define KF_NAME_SELECT "select"
#define KF_NAME_GATHER_ND "gather_nd"
#define KF_NAME_SCATTER "scatter"
#define KF_NAME_SCATTER_ND "scatter_nd"
#define KF_NAME_SELECT_ASSIGN "select_assign"
#define KF_NAME_SLICE_ASSIGN "slice_assign"
#define KF_NAME_EMBEDDING "embedding"
#define KF_NAME_EMBEDDING_BACKWARD "embedding_backward"
#define KF_NAME_ONE_HOT "one_hot"
#define KF_NAME_REVERSE_SEQUENCE "reverse_sequence"
#define KF_NAME_REPEAT "repeat"
#define KF_NAME_ROLL "roll"
#define KF_NAME_TRIL "tril"
#define KF_NAME_TRIU "triu"
#define KF_NAME_EYE "eye"
#define KF_NAME_DEPTH_TO_SPACE "depth_to_space"
#define KF_NAME_SPACE_TO_DEPTH "space_to_depth"
#define KF_NAME_CUM_SUM "cum_sum"
#define KF_NAME_CUM_PROD "cum_prod"
#define KF_NAME_CUM_MAX "cum_max"
#define KF_NAME_CUM_MIN "cum_min"
#define KF_NAME_SORT "sort"
#define KF_NAME_ARGSORT "argsort"
#define KF_NAME_SORT_WITH_INDICES "sort_with_indices"
#define KF_NAME_TOP_K "top_k"
#define KF_NAME_CROSS "cross"
#define KF_NAME_ARGWHERE "argwhere"
#define KF_NAME_NMS "nms"
#define KF_NAME_TREE_ENSEMBLE "tree_ensemble"
#define KF_NAME_CONCAT "concat"
#define KF_NAME_PAD "pad"
#define KF_NAME_FULL "full"
#define KF_NAME_ARANGE "arange"
#define KF_NAME_RANDOM_UNIFORM "random_uniform"
#define KF_NAME_RANDOM_INT "random_int"
#define KF_NAME_RANDOM_NORMAL "random_normal"
#define KF_NAME_RANDOM_BERNOULLI "random_bernoulli"
#define KF_NAME_LINEAR "linear"
#define KF_NAME_LINEAR_X_BACKWARD "linear_x_backward"
#define KF_NAME_LINEAR_WEIGHT_BACKWARD "linear_weight_backward"
#define KF_NAME_LINEAR_BIAS_BACKWARD "linear_bias_backward"
#define KF_NAME_ATTENTION "attention"
#define KF_NAME_EINSUM "einsum"
#define KF_NAME_LSTM "lstm"
#define KF_NAME_GRU "gru"
#define KF_NAME_RNN "rnn"
#define KF_NAME_FFT "fft"
#define KF_NAME_RFFT "rfft"
#define KF_NAME_IRFFT "irfft"
#define KF_NAME_CTC_LOSS "ctc_loss"
#define KF_NAME_CTC_LOSS_BACKWARD "ctc_loss_backward"
#define KF_NAME_DET "det"
#define KF_NAME_RANDOM_PERMUTATION "random_permutation"
#define KF_NAME_QUANTIZE "quantize"
#define KF_NAME_DEQUANTIZE "dequantize"
#define KF_NAME_QUANTIZE_DYNAMIC "quantize_dynamic"
#define KF_NAME_QUANTIZED_SCALES "quantized_scales"
#define KF_NAME_MATMUL_QUANTIZED "matmul_quantized"
#define KF_NAME_LINEAR_QUANTIZED "linear_quantized"
#define KF_NAME_ALL_REDUCE "all_reduce"
#define KF_NAME_COLLECTIVE_SYNC "collective_sync"
#define KF_NAME_CUSTOM "custom"
#define KF_NAME_DROP "drop"

#define KF_ATTR_AXIS 1u /* axis; negative counts from the last */
#define KF_ATTR_AXES 2u /* axes; negative counts from the last; empty: all */
#define KF_ATTR_KEEPDIMS 3u /* keep reduced axes with length 1 */
#define KF_ATTR_SHAPE 4u /* lengths of the result */
#define KF_ATTR_DTYPE 5u /* element type of the result */
#define KF_ATTR_VALUE 6u /* scalar operand */
#define KF_ATTR_MIN 7u /* lower bound */
#define KF_ATTR_MAX 8u /* upper bound */
#define KF_ATTR_STARTS 9u /* first index of each axis, clamped like Python's */
#define KF_ATTR_ENDS 10u /* index after the last of each axis, clamped like Python's */
#define KF_ATTR_STEPS 11u /* step of each axis, not 0; empty: 1 */
#define KF_ATTR_STRIDES 12u /* step of the window along each spatial axis */
#define KF_ATTR_PADDING 13u /* elements added: all beginnings, then all ends */
#define KF_ATTR_DILATIONS 14u /* distance of window elements along each spatial axis */
#define KF_ATTR_GROUPS 15u /* number of channel groups */
#define KF_ATTR_KERNEL 16u /* window length along each spatial axis */
#define KF_ATTR_CEIL_MODE 17u /* round the number of windows up; each must start inside input or left padding */
#define KF_ATTR_INCLUDE_PAD 18u /* divide by the window length with its padding */
#define KF_ATTR_EPSILON 19u /* added to the variance */
#define KF_ATTR_TRANSPOSE_A 20u /* swap the last two axes of a */
#define KF_ATTR_TRANSPOSE_B 21u /* swap the last two axes of b */
#define KF_ATTR_MODE 22u /* named variant */
#define KF_ATTR_START 23u /* first value */
#define KF_ATTR_STEP 24u /* difference of neighbours */
#define KF_ATTR_SLOPE 25u /* factor for negative elements */
#define KF_ATTR_LAST 26u /* of equal elements take the last, not the first */
#define KF_ATTR_COUNT 27u /* number of elements */
#define KF_ATTR_APPROXIMATE 28u /* use the cheaper formula */
#define KF_ATTR_SIZE 30u /* length of a window or block */
#define KF_ATTR_STRIDE 31u /* distance between the beginnings of windows */
#define KF_ATTR_OFFSET 32u /* which diagonal: 0 the main one, above 0 the upper ones */
#define KF_ATTR_REPEATS 33u /* how often along each axis */
#define KF_ATTR_SHIFTS 34u /* places to move along each of the axes */
#define KF_ATTR_BATCH_AXIS 35u /* axis of independent parts; negative counts from the last */
#define KF_ATTR_BATCH_DIMS 36u /* number of leading axes that inputs share */
#define KF_ATTR_EXCLUSIVE 37u /* without the element itself */
#define KF_ATTR_REVERSE 38u /* from the end to the beginning */
#define KF_ATTR_DESCENDING 39u /* from the largest down */
#define KF_ATTR_OUTPUT_PADDING 40u /* elements appended to the result along each spatial axis */
#define KF_ATTR_OUTPUT_SIZE 41u /* spatial lengths of the result */
#define KF_ATTR_ALIGN_CORNERS 42u /* -1 and 1 are the middles of the outer elements, not their edges */
#define KF_ATTR_PADDING_MODE 43u /* what is outside: zeros, border or reflection */
#define KF_ATTR_CUBIC_A 44u /* the free coefficient of the cubic filter */
#define KF_ATTR_COORDINATES 45u /* where elements of the result lie in the input, by ONNX's names */
#define KF_ATTR_SCALES 46u /* lengths of the result by those of the input, of the last axes; 0 or absent: what they are */
#define KF_ATTR_REGION 47u /* of the last axes, all beginnings and all ends as parts of the input */
#define KF_ATTR_OFFSET_GROUPS 48u /* groups of channels that share offsets */
#define KF_ATTR_P 49u /* exponent of the norm */
#define KF_ATTR_ALPHA 50u /* first factor of the formula */
#define KF_ATTR_BETA 51u /* second factor of the formula */
#define KF_ATTR_MOMENTUM 52u /* share of the old value in a running one */
#define KF_ATTR_SCALE 53u /* factor of the scores; 0: 1 / sqrt(length of a query) */
#define KF_ATTR_SOFTCAP 54u /* scores become softcap * tanh(scores / softcap); 0: as they are */
#define KF_ATTR_CAUSAL 55u /* position i sees none after i */
#define KF_ATTR_DIRECTION 56u /* forward, reverse or bidirectional */
#define KF_ATTR_ACTIVATIONS 57u /* names with commas, for each direction; empty: the usual ones */
#define KF_ATTR_ALPHAS 58u /* alpha of each activation; empty: the usual ones */
#define KF_ATTR_BETAS 59u /* beta of each activation; empty: the usual ones */
#define KF_ATTR_CLIP 60u /* bound of what activations get; 0: none */
#define KF_ATTR_INPUT_FORGET 61u /* the forget gate is 1 - the input gate */
#define KF_ATTR_RESET_AFTER 62u /* the reset gate acts after the matrix product */
#define KF_ATTR_INVERSE 63u /* the inverse transform, divided by the length */
#define KF_ATTR_LENGTH 64u /* length of the signal; 0: what the input says */
#define KF_ATTR_EQUATION 65u /* letters of each input's axes, with commas, then -> and the result's */
#define KF_ATTR_BLANK 66u /* class that stands for no label */
#define KF_ATTR_SEED 70u /* key of the random numbers */
#define KF_ATTR_STREAM 71u /* stream of random numbers, below 2^32 */
#define KF_ATTR_POSITION 72u /* which draw of the stream, below 2^48 */
#define KF_ATTR_MEAN 73u /* centre of the distribution */
#define KF_ATTR_DEVIATION 74u /* standard deviation, not negative */
#define KF_ATTR_PROBABILITY 75u /* chance of 1, from 0 to 1 */
#define KF_ATTR_BLOCKS 76u /* length of a quantisation block along each axis: a power of 2, or 0 for all of it; empty: one scale */
#define KF_ATTR_SCALE_DTYPE 77u /* element type of the scales: f32, f16 or bf16 */
#define KF_ATTR_EXCLUDE_OUTSIDE 80u /* weights outside the input are 0 and the others scaled to 1 */
#define KF_ATTR_ANTIALIAS 81u /* filters as wide as the elements of the result */
#define KF_ATTR_SAMPLING_RATIO 82u /* samples along each axis of a bin; 0: as many as it has elements */
#define KF_ATTR_SPATIAL_SCALE 83u /* factor from coordinates of boxes to those of x */
#define KF_ATTR_REDUCTION 90u /* how values are combined: sum, mean, min, max or prod */
#define KF_ATTR_GROUP 91u /* group of devices, by kiln_collective_id; 0: this device alone */
#define KF_ATTR_MEMBER 92u /* which device of this process's part of the group, from 0 */
#define KF_ATTR_OVERLAP 100u /* share of the union that the intersection of two boxes must exceed */
#define KF_ATTR_LEAST 101u /* scores must exceed it; absent: all but NaN and -inf do */
#define KF_ATTR_CENTER 102u /* boxes are middle x, middle y, width, height */
#define KF_ATTR_NAME 110u /* which operator: domain::name */
#define KF_ATTR_VERSION 111u /* of the operator's meaning, from 1 */
#define KF_ATTR_ATTRIBUTES 112u /* the operator's own attributes in canonical text, such as clip=6.0, axes=[0,1] */

#define KF_DTYPE_BOOL 1u
#define KF_DTYPE_U8 2u
#define KF_DTYPE_U16 3u
#define KF_DTYPE_U32 4u
#define KF_DTYPE_U64 5u
#define KF_DTYPE_I8 6u
#define KF_DTYPE_I16 7u
#define KF_DTYPE_I32 8u
#define KF_DTYPE_I64 9u
#define KF_DTYPE_F16 10u
#define KF_DTYPE_BF16 11u
#define KF_DTYPE_F32 12u
#define KF_DTYPE_F64 13u
#define KF_DTYPE_Q8F 14u
#define KF_DTYPE_Q8S 15u
#define KF_DTYPE_Q4F 16u
#define KF_DTYPE_Q4S 17u
#define KF_DTYPE_Q2F 18u
#define KF_DTYPE_Q2S 19u
#define KF_DTYPE_F8E4M3FN 20u
#define KF_DTYPE_F8E4M3FNUZ 21u
#define KF_DTYPE_F8E5M2 22u
#define KF_DTYPE_F8E5M2FNUZ 23u
#define KF_DTYPE_F8E8M0 24u
#define KF_DTYPE_F4E2M1 25u

#endif
