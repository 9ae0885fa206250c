/* The record of a profile; see the header. */
#include "core/runtime/profile.h"

#include <string.h>

#define EVENTS_MAX (1u << 20)

void st_profile_init(st_profile *profile, st_mem *mem)
{
    memset(profile, 0, sizeof *profile);
    profile->mem = mem;
    st_hashset_init(&profile->by_name, mem);
    (void)pthread_mutex_init(&profile->lock, NULL);
}

void st_profile_forget(st_profile *profile)
{
    st_vec_free(profile->mem, &profile->events);
    st_vec_free(profile->mem, &profile->names);
    st_hashset_deinit(&profile->by_name);
    st_hashset_init(&profile->by_name, profile->mem);
    profile->is_cut = 0;
}

void st_profile_deinit(st_profile *profile)
{
    st_profile_forget(profile);
    (void)pthread_mutex_destroy(&profile->lock);
}

void st_profile_start(st_profile *profile)
{
    (void)pthread_mutex_lock(&profile->lock);
    st_profile_forget(profile);
    (void)pthread_mutex_unlock(&profile->lock);
    atomic_store(&profile->is_on, 1u);
}

void st_profile_stop(st_profile *profile)
{
    atomic_store(&profile->is_on, 0u);
}

void st_profile_go_on(st_profile *profile)
{
    atomic_store(&profile->is_on, 1u);
}

bool st_profile_is_on(const st_profile *profile)
{
    return atomic_load_explicit(&((st_profile *)(uintptr_t)profile)->is_on, memory_order_relaxed) !=
           0;
}

typedef struct probe {
    const st_profile *profile;
    const st_profile_name *name;
} probe;

static bool is_name(void *self, uint32_t id)
{
    const probe *p = self;
    return memcmp(&p->profile->names.data[id - 1u], p->name, sizeof *p->name) == 0;
}

/* The name's place in profile->names; UINT32_MAX: no memory. */
static uint32_t name_of(st_profile *profile, const char *given)
{
    st_profile_name name = {.text = ""};
    size_t n = strcspn(given, "\n");
    n = n < sizeof name.text ? n : sizeof name.text - 1u;
    memcpy(name.text, given, n);
    probe p = {profile, &name};
    const uint64_t hash = st_hash64(&name, sizeof name, 0);
    const uint32_t known = st_hashset_find(&profile->by_name, hash, is_name, &p);
    if (known != 0) {
        return known - 1u;
    }
    st_profile_name *at = st_vec_push(profile->mem, &profile->names);
    if (at == NULL || !st_hashset_add(&profile->by_name, hash, profile->names.count)) {
        profile->names.count -= at != NULL;
        return UINT32_MAX;
    }
    *at = name;
    return profile->names.count - 1u;
}

void st_profile_add(st_profile *profile, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
    (void)pthread_mutex_lock(&profile->lock);
    const uint32_t id = name_of(profile, name);
    st_profile_event *at = id != UINT32_MAX && profile->events.count < EVENTS_MAX
                               ? st_vec_push(profile->mem, &profile->events)
                               : NULL;
    if (at != NULL) {
        *at = (st_profile_event){id, begin_ns, end_ns};
    }
    profile->is_cut |= at == NULL;
    (void)pthread_mutex_unlock(&profile->lock);
}
