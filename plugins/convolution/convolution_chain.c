// SPDX-License-Identifier: MIT OR Apache-2.0
// Short launches that follow one another as one: each of the processor's units computes its share
// of a launch's work-items, then what is left of the others', and waits until all are done before
// it goes on to the next launch. Between two launches the driver's workers would go to sleep and be
// woken, which takes as long as some of them compute. A unit has the same share of each launch, so
// that it finds what it reads in its own cache.
//
// Whoever waits, waits for work-items that others have begun, so nobody waits for ever however many
// units run at once. The last unit to leave sets the counts back to 0.
#include "convolution_form.h"

enum {
    MOST_TOGETHER = 6,
    MOST_NS = 400000, ///< of a launch: longer ones do not mind
    MOST_SHARES = 16, ///< of the work-items of a launch
    APART = 16 ///< numbers from one count to the next, a line of the cache
};

// ---- which ----

static int64_t places_of(const cv_plan *plan, uint32_t value)
{
    const cv_value *v = &plan->region->values[value];
    return (int64_t)v->height * v->width * cv_plan_blocks(plan, value) * CV_LANES;
}

/// About, for n = 1.
static int64_t ns_of(const cv_plan *plan, const cv_step *step)
{
    const kf_cost *cost = &plan->device->cost;
    int64_t bytes = 4 * (places_of(plan, step->input) + places_of(plan, step->output));
    int64_t ps = bytes * (int64_t)cost->ps_per_kib / 1024;
    if (cv_is_product(step->kind) && step->kind != CV_DEPTHWISE) {
        const cv_window *w = &plan->region->ops[step->op].window;
        int64_t terms = (int64_t)cv_plan_depth(plan, step) * plan->places[step->input].lanes *
                        w->lengths[0] * w->lengths[1];
        ps += 2 * places_of(plan, step->output) * terms * (int64_t)cost->ps_per_kflop / 1024;
    }
    return ps / 1000;
}

static uint32_t bytes_of(const cv_param *p)
{
    uint32_t is_int = p->kind == CV_PARAM_SCALAR || (p->kind == CV_PARAM_INT && p->index == 0);
    return is_int ? 4 : 8;
}

/// Bytes of a launch's arguments when those of the kernel come behind `bytes`.
static uint32_t add_bytes(uint32_t bytes, const cv_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->n_params; i++) {
        uint32_t size = bytes_of(&kernel->params[i]);
        bytes = (bytes + size - 1) / size * size + size;
    }
    return bytes;
}

uint32_t cv_chain_length(const cv_plan *plan, const cv_kernel *kernels, uint32_t first)
{
    uint32_t n = 0, bytes = 16, params = 2; // the batch and the counts
    if (!plan->device->chains) {
        return 1;
    }
    while (n < MOST_TOGETHER && first + n < plan->n_steps &&
           ns_of(plan, &plan->steps[first + n]) <= MOST_NS) {
        bytes = add_bytes(bytes, &kernels[first + n]);
        params += kernels[first + n].n_params;
        if (bytes > plan->device->param_bytes || params > CV_MAX_PARAMS) {
            break;
        }
        n++;
    }
    return n > 0 ? n : 1;
}

static uint32_t shares_of(const cv_plan *plan)
{
    return plan->device->units < MOST_SHARES ? plan->device->units : MOST_SHARES;
}

/// Of `n` parts: work-items that were begun, of each share; that were done; units that left.
static uint32_t counts_of(const cv_plan *plan, uint32_t n)
{
    return n * (shares_of(plan) + 1) + 1;
}

int64_t cv_chain_count_bytes(const cv_plan *plan)
{
    return (int64_t)counts_of(plan, MOST_TOGETHER) * APART * (int64_t)sizeof(int32_t);
}

// ---- a kernel as a function ----

/// The first character behind the identifier that begins at `at`.
static const char *end_of_name(const char *at)
{
    while ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
           *at == '_') {
        at++;
    }
    return at;
}

/// The name that the line gives to a function, a type or a macro; its length, 0: to nothing.
static uint32_t name_in(const char *line, uint32_t macros, const char **out_name)
{
    static const char define[] = "#define ", function[] = "static inline ", type[] = "typedef ";
    const char *end;
    if (strncmp(line, define, sizeof(define) - 1) == 0) {
        *out_name = line + sizeof(define) - 1;
        return macros ? (uint32_t)(end_of_name(*out_name) - *out_name) : 0;
    }
    if (macros) {
        return 0;
    }
    if (strncmp(line, function, sizeof(function) - 1) == 0) {
        end = strchr(line, '(');
    } else if (strncmp(line, type, sizeof(type) - 1) == 0) {
        end = strchr(line, ';');
    } else {
        return 0;
    }
    *out_name = end;
    while (end != NULL && *out_name > line && end_of_name(*out_name - 1) > *out_name - 1) {
        --*out_name;
    }
    return end != NULL ? (uint32_t)(end - *out_name) : 0;
}

/// For each name of the text: as a macro that gives functions and types one of their own, or as
/// what ends all macros.
static void own_names(kf_text *text, const char *of, uint32_t number, uint32_t ends)
{
    for (const char *line = of; line != NULL; line = strchr(line, '\n')) {
        const char *name = NULL;
        line += *line == '\n';
        uint32_t is_macro = name_in(line, /*macros=*/1, &name);
        uint32_t length = is_macro ? is_macro : name_in(line, /*macros=*/0, &name);
        if (length == 0 || (is_macro && !ends)) {
            continue;
        }
        kf_text_add(text, ends ? "#undef " : "#define ");
        kf_text_bytes(text, name, length);
        if (!ends) {
            kf_text_add(text, " ");
            kf_text_bytes(text, name, length);
            kf_text_addf(text, "_%u", (unsigned)number);
        }
        kf_text_add(text, "\n");
    }
}

/// The kernel as the function step_<number>, whose first parameter is the work-item.
static void add_function(kf_text *text, const cv_kernel *kernel, uint32_t number)
{
    static const char params[] = "#define PARAMS ";
    const char *body = strchr(kernel->text.ptr, '\n') + 1; // behind its name
    const char *at = strstr(body, params) + sizeof(params) - 1;
    kf_text_addf(text, "#define KERNEL step_%u\n", (unsigned)number);
    kf_text_add(text, "#define __kernel static __attribute__((noinline))\n"
                      "#define get_global_id(axis) chain_item\n");
    own_names(text, body, number, /*ends=*/0);
    kf_text_bytes(text, body, (uint64_t)(at - body));
    kf_text_add(text, "const int chain_item, ");
    kf_text_add(text, at);
    own_names(text, body, number, /*ends=*/1);
    kf_text_add(text, "#undef KERNEL\n#undef __kernel\n#undef get_global_id\n");
}

// ---- the launch ----

static const char *chained_type(const cv_param *p)
{
    switch (p->kind) {
    case CV_PARAM_TEMP:
    case CV_PARAM_TENSOR:
        return p->access == KF_ACCESS_READ ? "__global const void *" : "__global void *";
    case CV_PARAM_OFFSET:
        return "const long ";
    case CV_PARAM_SCALAR:
        return cv_scalar_name((uint32_t)p->number);
    default:
        return p->index == 1 ? "const long " : "const int ";
    }
}

/// Does a part before `k` write the temporary? Then it has no value that comes from elsewhere.
static uint32_t is_made_before(const cv_kernel *parts, uint32_t k, const cv_param *p)
{
    for (uint32_t i = 0; i < k && p->kind == CV_PARAM_TEMP; i++) {
        for (uint32_t m = 0; m < parts[i].n_params; m++) {
            const cv_param *other = &parts[i].params[m];
            if (other->kind == CV_PARAM_TEMP && other->index == p->index &&
                (other->access & KF_ACCESS_WRITE) != 0) {
                return 1;
            }
        }
    }
    return 0;
}

/// The temporary behind the packs.
static void counts_param(cv_kernel *out, const cv_plan *plan, uint32_t access)
{
    cv_param p = {.kind = CV_PARAM_TEMP, .index = plan->n_slots + plan->n_packs, .access = access};
    cv_param_add(out, p, "__global int *", "counts");
}

static void add_params(cv_kernel *out, const cv_plan *plan, const cv_kernel *parts, uint32_t n)
{
    cv_params_begin(out);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < parts[k].n_params; i++) {
            cv_param p = parts[k].params[i];
            char name[32];
            snprintf(name, sizeof(name), " a%u_%u", (unsigned)k, (unsigned)i);
            p.access = is_made_before(parts, k, &p) ? KF_ACCESS_WRITE : p.access;
            cv_param_add(out, p, chained_type(&p), name);
        }
    }
    cv_param_add(out, (cv_param){.kind = CV_PARAM_BATCH}, "const int ", "batch");
    counts_param(out, plan, KF_ACCESS_READ_WRITE);
    cv_params_end(out);
}

/// Which function computes part `k`: equal kernels share one.
static uint32_t function_of(const cv_kernel *parts, uint32_t k)
{
    uint32_t first = 0;
    while (strcmp(parts[first].name, parts[k].name) != 0) {
        first++;
    }
    return first;
}

static void add_part(kf_text *text, const cv_plan *plan, const cv_kernel *parts, uint32_t k)
{
    uint32_t each = (shares_of(plan) + 1) * APART; // counts of a part, done ones the last
    if (k > 0) {
        kf_text_addf(text, "    await(counts + %u, all);\n", (unsigned)(k * each - APART));
    }
    kf_text_addf(text,
                 "    done = 0;\n"
                 "    all = batch * %lld;\n"
                 "    for (int i = 0; i < SHARES; i++) {\n"
                 "        const long share = (unit + i) %% SHARES;\n"
                 "        const int begin = (int)(all * share / SHARES);\n"
                 "        const int end = (int)(all * (share + 1) / SHARES);\n"
                 "        __global int *count = counts + %u + share * %u;\n"
                 "        for (int item; (item = begin + atomic_inc(count)) < end; done++) {\n"
                 "            step_%u(item",
                 (long long)parts[k].items, (unsigned)(k * each), (unsigned)APART,
                 (unsigned)function_of(parts, k));
    for (uint32_t i = 0; i < parts[k].n_params; i++) {
        kf_text_addf(text, ", a%u_%u", (unsigned)k, (unsigned)i);
    }
    kf_text_addf(text,
                 ");\n"
                 "        }\n"
                 "    }\n"
                 "    SETTLE;\n"
                 "    atomic_add(counts + %u, done);\n",
                 (unsigned)((k + 1) * each - APART));
}

static const char chain_helpers[] =
    "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
    "#define SETTLE __atomic_thread_fence(__ATOMIC_SEQ_CST)\n"
    "#else\n"
    "#define SETTLE mem_fence(CLK_GLOBAL_MEM_FENCE)\n"
    "#endif\n"
    "#ifdef __x86_64__\n"
    "#define REST __asm__ volatile(\"pause\")\n"
    "#else\n"
    "#define REST\n"
    "#endif\n"
    "static inline void await(__global volatile int *count, int all)\n"
    "{\n"
    "    while (*count < all) {\n"
    "        REST;\n"
    "    }\n"
    "    SETTLE;\n"
    "}\n";

void cv_chain_join(cv_kernel *out, const cv_plan *plan, const cv_kernel *parts, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        out->failed |= parts[k].failed;
        if (!out->failed && function_of(parts, k) == k) {
            add_function(&out->text, &parts[k], k);
        }
    }
    if (out->failed) {
        return;
    }
    add_params(out, plan, parts, n);
    kf_text body = {0};
    cv_text_define(&body, "SHARES", shares_of(plan));
    kf_text_add(&body, chain_helpers);
    kf_text_add(&body, "__kernel void CHAIN(PARAMS)\n{\n"
                       "    const int unit = (int)get_global_id(0);\n"
                       "    int done, all;\n");
    for (uint32_t k = 0; k < n; k++) {
        add_part(&body, plan, parts, k);
    }
    uint32_t counts = counts_of(plan, n);
    kf_text_addf(&body,
                 "    if (atomic_inc(counts + %u) == (int)get_global_size(0) - 1) {\n"
                 "        for (int i = 0; i < %u; i++) {\n"
                 "            counts[i * %u] = 0;\n"
                 "        }\n    }\n}\n",
                 (unsigned)((counts - 1) * APART), (unsigned)counts, (unsigned)APART);
    out->items = plan->device->units;
    out->of_units = 1;
    out->failed |= body.failed;
    cv_kernel_name(out, "CHAIN", body.ptr != NULL ? body.ptr : "", "chain");
    kf_text_free(&body);
}

void cv_chain_clear(cv_kernel *out, const cv_plan *plan)
{
    cv_params_begin(out);
    counts_param(out, plan, KF_ACCESS_WRITE);
    cv_params_end(out);
    out->items = cv_chain_count_bytes(plan) / (int64_t)sizeof(int32_t);
    cv_kernel_close(out, "__kernel void KERNEL(PARAMS)\n{\n    counts[get_global_id(0)] = 0;\n}\n",
                    "clear");
}
