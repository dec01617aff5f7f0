/* ARM's cores: how far ahead weights are prefetched. CORE(name, implementer, part, latency,
 * bandwidth): the numbers of MIDR_EL1 (part 0: all of them), nanoseconds of a read from memory, and
 * GB/s that one core reads.
 *
 * A core that reads at its full rate has latency x bandwidth bytes under way (Little's law). What
 * is asked for later than that comes too late, what is asked for far earlier fills the caches. So
 * the distance is that product, in whole KiB, rounded up. No row was timed with mica.
 *
 * Sources. Neoverse N1: 83 ns by Arm, 81 ns by AnandTech (2020) on Graviton2; 20.9 GB/s by Arm's
 * System Characterization Tool (learn.arm.com, "memory subsystem"). Neoverse V2: 37.0 GB/s by the
 * same on Graviton4; 115 ns is what servers with DDR5 have. V1, on the same memory, is taken as V2.
 * Cortex-A76: a Raspberry Pi 5 has 17 GB/s at its pins; 130 ns is what LPDDR4X has on such boards.
 * Apple: AnandTech (2021) measured 102 GB/s for a core of the M1 Max, and 15 ns more than the 96 ns
 * of the M1. other: between these. */
CORE(neoverse_n1, 0x41, 0xd0c, 83, 21)
CORE(neoverse_v1, 0x41, 0xd40, 115, 37)
CORE(neoverse_v2, 0x41, 0xd4f, 115, 37)
CORE(cortex_a76, 0x41, 0xd0b, 130, 17)
CORE(apple_m, 0x61, 0, 111, 102)
CORE(other, 0, 0, 110, 37)
#undef CORE
