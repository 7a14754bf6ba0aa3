/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Logarithms, powers of two and tanh in fixed-point numbers of 2^-16, for programs that have no floating-point
 * numbers. It does not use the kernel, so that a test can compile it for user space.
 *
 * Between powers of two the curves are f + f (1 - f) Q(f), which is exact at both ends; Q is a least-squares fit,
 * in 2^-30. eBPF has no division of negative numbers.
 */
#ifndef SYSGYM_FIXED_POINT_H
#define SYSGYM_FIXED_POINT_H

#define FIXED_POINT static inline __attribute__((always_inline))
/* Neither static nor inline: the kernel's verifier checks such a function once and not at every call. */
#define FIXED_FUNCTION __attribute__((noinline))
#define FIXED_SHIFT 16
#define FIXED_ONE (1 << FIXED_SHIFT)
#define CURVE_SHIFT 30
#define CURVE_ONE (1ll << CURVE_SHIFT)
#define LOG2_E 94548ll /* log2(e), in 2^-16 */
#define TANH_SATURATES (6 * FIXED_ONE) /* 1 - tanh(6) is less than 2^-16 */

typedef long long fixed;

FIXED_POINT fixed curve(long long f, long long q0, long long q1, long long q2, long long q3)
{
	long long q = q2 + (f * q3 >> CURVE_SHIFT);

	q = q1 + (f * q >> CURVE_SHIFT);
	q = q0 + (f * q >> CURVE_SHIFT);
	q = (CURVE_ONE - f) * q >> CURVE_SHIFT;
	return f + (f * q >> CURVE_SHIFT);
}

/* Base-2 logarithm of a whole number; 0 counts as 1. */
FIXED_FUNCTION fixed fixed_log2(unsigned long long number)
{
	unsigned long long rest = number;
	int exponent = 0, step;
	long long f;

	if (number == 0)
		return 0;
#pragma unroll
	for (step = 5; step > 0; step--) { /* halves what the exponent may be: 32 bits, 16 ... 2 */
		int bits = 1 << step;

		if (rest >> bits) {
			exponent += bits;
			rest >>= bits;
		}
	}
	exponent += rest >> 1;
	f = exponent > CURVE_SHIFT ? number >> (exponent - CURVE_SHIFT) : number << (CURVE_SHIFT - exponent);
	f = curve(f - CURVE_ONE, 474417655, -286191152, 157860203, -47506356);
	return ((long long)exponent << FIXED_SHIFT) + (f >> (CURVE_SHIFT - FIXED_SHIFT));
}

/* Two to the power of a number between -16 and 30. */
FIXED_FUNCTION fixed fixed_exp2(fixed power)
{
	long long whole = power >> FIXED_SHIFT;
	long long f = (power & (FIXED_ONE - 1)) << (CURVE_SHIFT - FIXED_SHIFT);
	unsigned long long mantissa = CURVE_ONE + curve(f, -329474488, -71618011, -11645930, -2035341);

	if (whole < -FIXED_SHIFT)
		return 0;
	if (whole > CURVE_SHIFT)
		whole = CURVE_SHIFT;
	return (mantissa << FIXED_SHIFT) >> (CURVE_SHIFT - whole);
}

FIXED_FUNCTION fixed fixed_tanh(fixed number)
{
	unsigned long long size = number < 0 ? -number : number;
	unsigned long long power, ratio;

	if (size > TANH_SATURATES)
		size = TANH_SATURATES;
	power = fixed_exp2((2 * size * LOG2_E) >> FIXED_SHIFT); /* e^2x; tanh is (e^2x - 1) / (e^2x + 1) */
	ratio = ((power - FIXED_ONE) << FIXED_SHIFT) / (power + FIXED_ONE);
	return number < 0 ? -(fixed)ratio : (fixed)ratio;
}

FIXED_POINT fixed fixed_product(fixed one, fixed other)
{
	return one * other >> FIXED_SHIFT;
}

#endif
