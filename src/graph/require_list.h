/* What the op `require` asks of data, and says where it is not so: REQUIRE(ENUM, op, thing, text),
 * "<op>: <thing> <index> <text>". Files hold the number of a row: new ones go to the end. Include
 * this file with REQUIRE defined; it is undefined at the end. */
REQUIRE(TEMPERATURE, "sample", "row", "has a temperature that is negative or NaN")
REQUIRE(LOGITS, "sample", "row", "of logits has NaN, +inf or nothing but -inf")
REQUIRE(LABEL, "softmax_cross_entropy", "label", "is negative")
REQUIRE(SCALE, "quantize_int8", "scale", "is not above 0")
REQUIRE(TRIM, "results", "count", "is above the length that there is room for")
REQUIRE(BRANCH, "if", "result",
        "is of a branch that could not be built from its file, or for these lengths")
REQUIRE(TOPK, "topk", "k", "is below 0, or above the length of its axis")
#undef REQUIRE
