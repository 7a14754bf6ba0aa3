/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Integer cube roots, for programs that have no floating-point numbers. It does not use the
 * kernel, so that a test can compile it for user space.
 */
#ifndef SYSGYM_CUBE_ROOT_H
#define SYSGYM_CUBE_ROOT_H

/*
 * Largest x with x^3 <= number, for numbers below 2^63.
 *
 * Newton's method from above: the start is at most twice the root, and the iteration ends at a step that does not
 * decrease. Eight steps are more than any start needs; the verifier requires the bounds.
 */
static inline __attribute__((always_inline)) unsigned int cube_root(unsigned long long number)
{
	unsigned long long root, next;
	int thirds, step;

	if (number == 0)
		return 0;
	for (thirds = 0; thirds < 21; thirds++)
		if (number >> (3 * thirds) == 0)
			break;
	root = 1ull << thirds;
	for (step = 0; step < 8; step++) {
		next = (2 * root + number / (root * root)) / 3;
		if (next >= root)
			break;
		root = next;
	}
	return root;
}

#endif
