#include "serve/common/put_time.h"

#include <stdio.h>
#include <time.h>

/* The date of a day since 1970, by years that begin in March, so that leap days come last. */
static void date_of(int64_t day, int *year, int *month, int *in_month) {
    day += 719468;                                     /* since the first of March of the year 0 */
    int64_t era = day / 146097, of_era = day % 146097; /* of 400 years */
    int64_t in_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * in_era + in_era / 4 - in_era / 100);
    int64_t from_march = (5 * of_year + 2) / 153;
    *in_month = (int)(of_year - (153 * from_march + 2) / 5 + 1);
    *month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
    *year = (int)(era * 400 + in_era + (*month <= 2));
}

void mc_put_time(mc_put *put, const char *key, int64_t seconds) {
    char text[80];
    struct timespec now = {0};
    int year, month, day;
    if (seconds < 0) timespec_get(&now, TIME_UTC);
    int64_t t = seconds < 0 ? (int64_t)now.tv_sec : seconds;
    int in_day = (int)(t % 86400);
    date_of(t / 86400, &year, &month, &day);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%09ldZ", year, month, day,
             in_day / 3600, in_day / 60 % 60, in_day % 60, (long)now.tv_nsec);
    mc_put_text(put, key, text);
}
