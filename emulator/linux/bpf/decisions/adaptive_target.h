/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the transport `adaptive_target` decides at the end of a round trip and after a loss, as in the simulator
 * (emulator/packets/transports/searched/adaptive_target.py, which says what the constants mean). It does not use the
 * kernel, so that a test can compile it for user space. Units are those of other_laws.h.
 */
#ifndef SYSGYM_ADAPTIVE_TARGET_H
#define SYSGYM_ADAPTIVE_TARGET_H

#include "other_laws.h"

#define TOGETHER 1

struct constants {
	int first_window;
	int target;
	int target_of_small;
	int target_of_path;
	int growth;
	int decrease;
	int most_decrease;
	int mark_decrease;
	int youth_growth;
	int youth_calm;
	int youth_packets;
	int start_pace;
	int pace;
	int patience;
	int patience_again;
	int stretch_up;
	int undo;
	int stretch_down;
	int stretch_calm;
	int marks_memory;
	int marks_ignored;
	int calm_rounds;
	int calm_growth;
	int loss_decrease;
	int loss_least;
	int loss_rest;
};

/* What a connection remembers between rounds. */
struct law {
	unsigned int packets; /* the window, with its fraction; may be less than one packet */
	unsigned int ssthresh;
	unsigned int growth; /* packets per round trip */
	struct company company;
};

/* Target of the queue where there are no other laws. */
FIXED_POINT fixed least_target(const struct constants *constants, unsigned int packets, fixed path)
{
	fixed window = fixed_log2(most_of(packets, SMALLEST_TARGETED)) - (FIXED_SHIFT << FIXED_SHIFT);

	return constants->target + fixed_product(constants->target_of_small, fixed_exp2(-(window >> 1))) +
	       fixed_product(constants->target_of_path, path);
}

FIXED_POINT struct queues look(const struct constants *constants, const struct law *law, const struct seen *seen)
{
	struct queues queues = queues_of(seen);

	queues.target = stretched(least_target(constants, law->packets, queues.path), law->company.stretch);
	return queues;
}

/* Halves with every youth_packets. */
FIXED_POINT fixed youth_of(const struct constants *constants, unsigned int delivered_packets)
{
	return fixed_exp2(-fixed_quotient((unsigned long long)delivered_packets << FIXED_SHIFT,
					  constants->youth_packets));
}

/* By what a queue above the target multiplies the window. */
FIXED_POINT fixed factor_of_queue(const struct constants *constants, const struct law *law,
				  const struct queues *queues, fixed youth)
{
	fixed excess = fixed_quotient(queues->mean - queues->target, queues->mean + queues->path);
	fixed decrease = fixed_product(constants->decrease, excess);

	decrease = fixed_product(decrease, FIXED_ONE - fixed_product(constants->youth_calm, youth));
	decrease = fixed_product(decrease, fixed_exp2(-fixed_product(constants->stretch_calm, law->company.stretch)));
	return FIXED_ONE - least_of(decrease, constants->most_decrease);
}

/* The growth of the next round. Rounds without a queue are counted. */
FIXED_POINT void set_growth(const struct constants *constants, struct law *law, const struct queues *queues,
			    fixed youth)
{
	law->growth = fixed_product(constants->growth, FIXED_ONE + fixed_product(constants->youth_growth, youth));
	if (queues->mean >= queues->target >> 3)
		law->company.counted = 0;
	else if (law->company.counted < MOST_OF_A_BYTE)
		law->company.counted += 1;
	if ((fixed)law->company.counted << FIXED_SHIFT > constants->calm_rounds)
		law->growth = most_of(law->growth, fixed_product(constants->calm_growth, law->packets));
}

/* Compare the queue with the target; set the window, and its growth in the next round. */
FIXED_POINT void law_end_round(const struct constants *constants, struct law *law, const struct seen *seen)
{
	const struct adaptation adaptation = {
		.own = -1,
		.rounds_in_vain = 0,
		.patience = constants->patience,
		.patience_again = constants->patience_again,
		.up = constants->stretch_up,
		.undo = constants->undo,
		.down = constants->stretch_down,
	};
	struct queues queues = look(constants, law, seen);
	fixed youth = youth_of(constants, seen->delivered_packets);
	fixed factor = factor_of_marks(&law->company, seen->marked_share, constants->mark_decrease,
				       constants->marks_memory, constants->marks_ignored);
	unsigned int before = law->packets;
	int is_above = queues.mean > queues.target;
	unsigned char rounds_in_vain = 0;

	if (is_above)
		factor = least_of(factor, factor_of_queue(constants, law, &queues, youth));
	if (!seen->lost)
		law->packets = fixed_product(law->packets, factor);
	if (is_above || factor < FIXED_ONE)
		law->ssthresh = least_of(law->ssthresh, law->packets);
	set_growth(constants, law, &queues, youth);
	law->packets = adapt_target(&adaptation, &law->company, &queues, law->packets, before,
				    delay_ns(seen->mean_rtt_ns, seen->base_rtt_ns), &rounds_in_vain);
	pass_rest(&law->company);
}

FIXED_POINT void law_lose(const struct constants *constants, struct law *law)
{
	fixed weight = weight_of_loss(&law->company, constants->loss_least, constants->loss_rest);

	law->packets = fixed_product(law->packets, FIXED_ONE - fixed_product(constants->loss_decrease, weight));
	law->ssthresh = most_of(law->packets, FIXED_ONE);
}

/* After a time-out the window is one packet (RFC 5681, 3.1). */
FIXED_POINT void law_time_out(const struct constants *constants, struct law *law)
{
	law->ssthresh = most_of(law->packets / 2, 2 * FIXED_ONE);
	law->packets = FIXED_ONE;
}

/* A mark ends slow start. */
FIXED_POINT void law_heed_mark(struct law *law)
{
	law->ssthresh = least_of(law->ssthresh, law->packets);
}

/* The threshold between fast growth and slow. */
FIXED_POINT unsigned int law_threshold(const struct law *law)
{
	return law->ssthresh;
}

/* Windows per round trip, of whatever length. */
FIXED_POINT unsigned int law_pace(const struct constants *constants, const struct law *law, fixed path)
{
	return law->packets < law->ssthresh ? constants->start_pace : constants->pace;
}

FIXED_POINT unsigned int law_growth(const struct law *law)
{
	return law->company.level <= LEVEL_ONE ? law->growth : 0;
}

FIXED_POINT void law_start(struct law *law, unsigned int packets)
{
	law->packets = packets;
	law->ssthresh = ~0u;
	law->growth = FIXED_ONE;
	company_start(&law->company, packets);
}

#endif
