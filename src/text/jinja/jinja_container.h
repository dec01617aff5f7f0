/* Containers: elements of lists, keys of dicts, characters of strings. */
#ifndef TEXT_JINJA_JINJA_CONTAINER_H
#define TEXT_JINJA_JINJA_CONTAINER_H

#include "text/jinja/jinja_value.h"

bool mc_jcontains(mc_jrun *r, mc_jvalue container, mc_jvalue v);
size_t mc_jlength(mc_jrun *r, mc_jvalue v);
/* The elements of a value: a list's, a string's characters, a dict's keys. An iterator is exhausted
 * by this. Never NULL; the run fails if v is not iterable. */
mc_jlist *mc_jelements(mc_jrun *r, mc_jvalue v);

#endif
