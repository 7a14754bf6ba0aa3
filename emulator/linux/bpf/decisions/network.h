/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The network of the transport `neural`, as in the simulator (emulator/packets/transports/searched/neural.py): one
 * hidden layer of tanh, and three outputs. All numbers are in 2^-16. It does not use the kernel, so that a test can
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

/* Measurements of a round trip. Shares, the correction and the window are in 2^-16. */
struct seen {
	unsigned long long mean_rtt_us;
	unsigned long long least_rtt_us;
	unsigned long long base_rtt_us; /* of an empty path */
	unsigned long long line_ns; /* time of a packet on the sender's line */
	unsigned int packets; /* the window */
	unsigned int delivered; /* packets so far */
	unsigned int marked_share;
	unsigned int alpha;
	int lost;
	int correction;
};

/* Outputs of the network per round trip: log2 of the window's factor, growth in packets, pace in windows. */
struct decision {
	int correction;
	int growth;
	int pace;
};

/* log2 of the ratio of two numbers, at least zero. */
FIXED_POINT fixed log2_over(unsigned long long number, unsigned long long other)
{
	fixed difference = fixed_log2(number) - fixed_log2(other);

	return difference > 0 ? difference : 0;
}

/* The inputs, in the simulator's order and scale. */
FIXED_POINT void network_look(const struct seen *seen, int *inputs)
{
	unsigned long long queueing_us =
		seen->mean_rtt_us > seen->base_rtt_us ? seen->mean_rtt_us - seen->base_rtt_us : 0;
	fixed line_packets = fixed_log2(seen->base_rtt_us * 1000) - fixed_log2(seen->line_ns);
	fixed window = fixed_log2(seen->packets) - (FIXED_SHIFT << FIXED_SHIFT);

	inputs[0] = log2_over(seen->mean_rtt_us, seen->base_rtt_us) >> 1;
	inputs[1] = log2_over(seen->least_rtt_us, seen->base_rtt_us) >> 1;
	inputs[2] = seen->marked_share;
	inputs[3] = seen->alpha;
	inputs[4] = (window - line_packets) >> 2;
	inputs[5] = fixed_log2(1ull + seen->delivered) * 6554 >> FIXED_SHIFT; /* a tenth */
	inputs[6] = seen->lost ? FIXED_ONE : 0;
	inputs[7] = seen->correction;
	inputs[8] = log2_over(seen->line_ns + queueing_us * 1000, seen->line_ns) * 13107 >> FIXED_SHIFT; /* a fifth */
}

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
