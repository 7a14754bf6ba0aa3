/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The network of the law `neural`, as the simulator has it (emulator/packets/transports/neural.py): one hidden
 * layer of tanh, and three outputs. All numbers are in 2^-16. It knows nothing of the kernel, so that a test may
 * compile it for user space.
 */
#ifndef SYSGYM_NETWORK_H
#define SYSGYM_NETWORK_H

#include "fixed_point.h"

#define N_INPUTS 9
#define N_HIDDEN 4
#define N_OUTPUTS 3

struct network {
	int first_window; /* log2 of the first window over the kernel's */
	int hidden_weights[N_HIDDEN][N_INPUTS];
	int hidden_bias[N_HIDDEN];
	int output_weights[N_OUTPUTS][N_HIDDEN];
	int output_bias[N_OUTPUTS];
};

/* What the network says: log2 of the window's factor, growth in packets and pace in windows, a round trip. */
struct decision {
	int correction;
	int growth;
	int pace;
};

FIXED_POINT void network_decide(const struct network *network, const int *inputs, struct decision *decision)
{
	fixed outputs[N_OUTPUTS];
	int unit, number;

#pragma unroll
	for (number = 0; number < N_OUTPUTS; number++)
		outputs[number] = network->output_bias[number];
#pragma unroll
	for (unit = 0; unit < N_HIDDEN; unit++) {
		fixed total = network->hidden_bias[unit];

#pragma unroll
		for (number = 0; number < N_INPUTS; number++)
			total += fixed_product(network->hidden_weights[unit][number], inputs[number]);
		total = fixed_tanh(total);
#pragma unroll
		for (number = 0; number < N_OUTPUTS; number++)
			outputs[number] += fixed_product(network->output_weights[number][unit], total);
	}
	decision->correction = fixed_tanh(outputs[0]);
	decision->growth = fixed_exp2(2 * fixed_tanh(outputs[1]));
	decision->pace = 2 * fixed_exp2(fixed_tanh(outputs[2]));
}

#endif
