// SPDX-License-Identifier: MIT OR Apache-2.0
// Ensembles of trees as one tree_ensemble: nodes of all kinds become questions "at most?", a node's
// true way behind it. Decides that x < t is x <= the number below t, that x == t is two questions
// and a set as many as it has members, and that the lists are made once and kept with the file's.
#include "onnx_ml.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum branch {
    BRANCH_LEQ = 0, ///< numbers of TreeEnsemble's attribute
    BRANCH_LT = 1,
    BRANCH_GTE = 2,
    BRANCH_GT = 3,
    BRANCH_EQ = 4,
    BRANCH_NEQ = 5,
    BRANCH_MEMBER = 6,
    BRANCH_LEAF = 7
} branch;

/// A node as the file has it.
typedef struct tree_node {
    branch mode;
    bool missing; ///< what is not a number takes the true way
    bool child; ///< of another
    int64_t feature;
    double value;
    int64_t yes, no; ///< nodes
    int64_t first, many; ///< of a leaf its weights, of a MEMBER its numbers
} tree_node;

typedef struct forest {
    kiln_env env;
    tree_node *nodes;
    int64_t n_nodes;
    int64_t *roots;
    int64_t n_roots;
    int64_t *targets; ///< of weights
    double *weights;
    int64_t n_weights;
    double *members;
} forest;

/// The lists of tree_ensemble while they are made.
typedef struct written {
    const forest *forest;
    double *thresholds;
    int32_t *features;
    int32_t *others; ///< while unknown -2 - the node before that waits for the same
    int64_t count, room;
    bool wide; ///< rows are f64
    int64_t *waiting; ///< by node of the forest: the last node that waits for it, + 1
    int64_t *stack;
} written;

enum { THRESHOLDS, WEIGHTS, FEATURES, OTHERS, ROOTS, TARGETS, FACTS, N_LISTS };

static void *take(kilni_onnx_call *call, int64_t count, size_t size)
{
    void *memory =
        kilni_onnx_ok(call) ? kiln_alloc_array(&call->session->env, (size_t)count + 1, size) : NULL;
    if (memory == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %lld nodes of trees",
                        (long long)count);
    }
    return memory;
}

static void forest_fini(forest *f)
{
    kiln_free(&f->env, f->nodes);
    kiln_free(&f->env, f->roots);
    kiln_free(&f->env, f->targets);
    kiln_free(&f->env, f->weights);
    kiln_free(&f->env, f->members);
}

// ---- attributes ----

/// A list of numbers, floats or integers, or a tensor of them.
typedef struct numbers {
    kilni_onnx_ref list;
    int64_t count;
} numbers;

static numbers numbers_of(kilni_onnx_call *call, const char *name)
{
    kilni_onnx_ref list = kilni_onnx_attr_list(call, name);
    return (numbers){list, list == NULL || !kilni_onnx_ok(call) ? 0 : kiln_desc_count(&list->desc)};
}

static double number_at(const numbers *n, int64_t i)
{
    kiln_number number = kilni_onnx_element(n->list->desc.dtype, n->list->host, i);
    return number.is_integer ? (double)number.v.i : number.v.f;
}

static int64_t integer_at(const numbers *n, int64_t i)
{
    kiln_number number = kilni_onnx_element(n->list->desc.dtype, n->list->host, i);
    return number.is_integer ? number.v.i : 0;
}

/// One of two attributes for the same, floats or a tensor.
static numbers either(kilni_onnx_call *call, const char *name, const char *as_tensor)
{
    numbers n = numbers_of(call, name);
    return n.count > 0 ? n : numbers_of(call, as_tensor);
}

static void need(kilni_onnx_call *call, const char *name, const numbers *n, int64_t count)
{
    if (n->count != count) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' has %lld numbers, not %lld", name,
                        (long long)n->count, (long long)count);
    }
}

static branch branch_of(kilni_onnx_call *call, const char *name)
{
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return (branch)i;
        }
    }
    KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "nodes_modes has '%.40s', which is no mode", name);
    return BRANCH_LEAF;
}

// ---- the older operators: nodes by tree and number ----

typedef struct place {
    int64_t tree, node, index;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->tree != y->tree) {
        return x->tree < y->tree ? -1 : 1;
    }
    return x->node < y->node ? -1 : x->node > y->node;
}

static int64_t find_place(const place *places, int64_t count, int64_t tree, int64_t node)
{
    const place key = {.tree = tree, .node = node};
    const place *found = bsearch(&key, places, (size_t)count, sizeof(*places), by_place);
    return found == NULL ? -1 : found->index;
}

/// The nodes' places, sorted.
static place *sorted_places(kilni_onnx_call *call, const numbers *trees, const numbers *nodes)
{
    place *places = take(call, trees->count, sizeof(*places));
    for (int64_t i = 0; places != NULL && i < trees->count; i++) {
        places[i] = (place){integer_at(trees, i), integer_at(nodes, i), i};
    }
    if (places != NULL) {
        qsort(places, (size_t)trees->count, sizeof(*places), by_place);
    }
    return places;
}

static void link_child(kilni_onnx_call *call, forest *f, const place *places, int64_t tree,
                       int64_t node, int64_t *out_child)
{
    *out_child = find_place(places, f->n_nodes, tree, node);
    if (*out_child < 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "tree %lld has no node %lld", (long long)tree,
                        (long long)node);
        return;
    }
    f->nodes[*out_child].child = true;
}

/// Weights go to their leaves: counted first, then put in the order of the nodes.
static void take_weights(kilni_onnx_call *call, forest *f, const place *places,
                         const numbers lists[4])
{
    int64_t count = lists[3].count;
    int64_t *leaves = take(call, count, sizeof(*leaves));
    f->targets = take(call, count, sizeof(*f->targets));
    f->weights = take(call, count, sizeof(*f->weights));
    f->n_weights = count;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        leaves[i] =
            find_place(places, f->n_nodes, integer_at(&lists[0], i), integer_at(&lists[1], i));
        if (leaves[i] < 0 || f->nodes[leaves[i]].mode != BRANCH_LEAF) {
            leaves[i] = -1; // of no leaf: no row comes to it
        } else {
            f->nodes[leaves[i]].many++;
        }
    }
    int64_t at = 0;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < f->n_nodes; i++) {
        if (f->nodes[i].mode == BRANCH_LEAF) {
            f->nodes[i].first = at;
            at += f->nodes[i].many;
            f->nodes[i].many = 0;
        }
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        tree_node *leaf = leaves[i] < 0 ? NULL : &f->nodes[leaves[i]];
        if (leaf != NULL) {
            int64_t to = leaf->first + leaf->many++;
            f->targets[to] = integer_at(&lists[2], i);
            f->weights[to] = number_at(&lists[3], i);
        }
    }
    f->n_weights = at;
    kiln_free(&f->env, leaves);
}

static void find_roots(kilni_onnx_call *call, forest *f)
{
    f->roots = take(call, f->n_nodes, sizeof(*f->roots));
    for (int64_t i = 0; kilni_onnx_ok(call) && i < f->n_nodes; i++) {
        if (!f->nodes[i].child) {
            f->roots[f->n_roots++] = i;
        }
    }
}

static void read_nodes(kilni_onnx_call *call, forest *f, place **out_places)
{
    const numbers trees = numbers_of(call, "nodes_treeids");
    const numbers ids = numbers_of(call, "nodes_nodeids");
    const numbers features = numbers_of(call, "nodes_featureids");
    const numbers values = either(call, "nodes_values", "nodes_values_as_tensor");
    const numbers yes = numbers_of(call, "nodes_truenodeids");
    const numbers no = numbers_of(call, "nodes_falsenodeids");
    const numbers missing = numbers_of(call, "nodes_missing_value_tracks_true");
    const kilni_onnx_attr *modes = kilni_onnx_attr_find(call, "nodes_modes");
    f->n_nodes = features.count;
    need(call, "nodes_treeids", &trees, f->n_nodes);
    need(call, "nodes_nodeids", &ids, f->n_nodes);
    need(call, "nodes_values", &values, f->n_nodes);
    need(call, "nodes_truenodeids", &yes, f->n_nodes);
    need(call, "nodes_falsenodeids", &no, f->n_nodes);
    if (modes == NULL || modes->type != KILNI_ONNX_ATTR_STRINGS || modes->count != f->n_nodes) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'nodes_modes' has not %lld names",
                        (long long)f->n_nodes);
    }
    f->nodes = take(call, f->n_nodes, sizeof(*f->nodes));
    place *places = kilni_onnx_ok(call) ? sorted_places(call, &trees, &ids) : NULL;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < f->n_nodes; i++) {
        f->nodes[i].mode = branch_of(call, modes->texts[i]);
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < f->n_nodes; i++) {
        tree_node *node = &f->nodes[i];
        node->feature = integer_at(&features, i);
        node->value = number_at(&values, i);
        node->missing = i < missing.count && integer_at(&missing, i) != 0;
        if (node->mode == BRANCH_MEMBER) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "BRANCH_MEMBER is of TreeEnsemble alone");
        }
        if (node->mode != BRANCH_LEAF) {
            int64_t tree = integer_at(&trees, i);
            link_child(call, f, places, tree, integer_at(&yes, i), &node->yes);
            link_child(call, f, places, tree, integer_at(&no, i), &node->no);
        }
    }
    *out_places = places;
}

/// `names` are those of the weights' trees, nodes, targets, floats and tensor.
static void read_older(kilni_onnx_call *call, forest *f, const char *const names[5])
{
    place *places = NULL;
    read_nodes(call, f, &places);
    const numbers lists[] = {numbers_of(call, names[0]), numbers_of(call, names[1]),
                             numbers_of(call, names[2]), either(call, names[3], names[4])};
    for (unsigned i = 0; i < 3; i++) {
        need(call, names[i], &lists[i], lists[3].count);
    }
    if (kilni_onnx_ok(call)) {
        take_weights(call, f, places, lists);
        find_roots(call, f);
    }
    kiln_free(&f->env, places);
}

// ---- TreeEnsemble ----

/// The numbers of sets follow one another, each set's end a NaN.
static void take_members(kilni_onnx_call *call, forest *f, const numbers *members)
{
    int64_t at = 0;
    f->members = take(call, members->count, sizeof(*f->members));
    for (int64_t i = 0; kilni_onnx_ok(call) && i < members->count; i++) {
        f->members[i] = number_at(members, i);
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < f->n_nodes; i++) {
        tree_node *node = &f->nodes[i];
        if (node->mode != BRANCH_MEMBER) {
            continue;
        }
        node->first = at;
        while (at < members->count && !isnan(f->members[at])) {
            at++;
        }
        node->many = at - node->first;
        at++;
    }
}

/// A way leads to a node or, where `leaf` says so, to a leaf, which stand behind the nodes.
static int64_t way_to(kilni_onnx_call *call, const forest *f, int64_t inner, int64_t to, bool leaf)
{
    int64_t count = leaf ? f->n_nodes - inner : inner;
    if (to < 0 || to >= count) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a way leads to %s %lld of %lld",
                        leaf ? "leaf" : "node", (long long)to, (long long)count);
        return 0;
    }
    return leaf ? inner + to : to;
}

static void read_newer_nodes(kilni_onnx_call *call, forest *f, int64_t inner)
{
    const numbers modes = numbers_of(call, "nodes_modes"),
                  splits = numbers_of(call, "nodes_splits");
    const numbers features = numbers_of(call, "nodes_featureids");
    const numbers missing = numbers_of(call, "nodes_missing_value_tracks_true");
    const numbers yes = numbers_of(call, "nodes_truenodeids");
    const numbers no = numbers_of(call, "nodes_falsenodeids");
    const numbers yes_leaf = numbers_of(call, "nodes_trueleafs");
    const numbers no_leaf = numbers_of(call, "nodes_falseleafs");
    need(call, "nodes_modes", &modes, inner);
    need(call, "nodes_splits", &splits, inner);
    need(call, "nodes_truenodeids", &yes, inner);
    need(call, "nodes_falsenodeids", &no, inner);
    need(call, "nodes_trueleafs", &yes_leaf, inner);
    need(call, "nodes_falseleafs", &no_leaf, inner);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < inner; i++) {
        tree_node *node = &f->nodes[i];
        int64_t mode = integer_at(&modes, i);
        if (mode < BRANCH_LEQ || mode > BRANCH_MEMBER) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "nodes_modes has %lld, which is no mode",
                            (long long)mode);
        }
        node->mode = (branch)mode;
        node->feature = integer_at(&features, i);
        node->value = number_at(&splits, i);
        node->missing = i < missing.count && integer_at(&missing, i) != 0;
        node->yes = way_to(call, f, inner, integer_at(&yes, i), integer_at(&yes_leaf, i) != 0);
        node->no = way_to(call, f, inner, integer_at(&no, i), integer_at(&no_leaf, i) != 0);
    }
}

static void read_newer(kilni_onnx_call *call, forest *f)
{
    const numbers features = numbers_of(call, "nodes_featureids");
    const numbers targets = numbers_of(call, "leaf_targetids");
    const numbers weights = numbers_of(call, "leaf_weights");
    const numbers members = numbers_of(call, "membership_values");
    const numbers roots = numbers_of(call, "tree_roots");
    need(call, "leaf_targetids", &targets, weights.count);
    f->n_nodes = features.count + weights.count;
    f->n_weights = weights.count;
    f->n_roots = roots.count;
    f->nodes = take(call, f->n_nodes, sizeof(*f->nodes));
    f->targets = take(call, weights.count, sizeof(*f->targets));
    f->weights = take(call, weights.count, sizeof(*f->weights));
    f->roots = take(call, roots.count, sizeof(*f->roots));
    if (kilni_onnx_ok(call)) {
        read_newer_nodes(call, f, features.count);
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < weights.count; i++) {
        f->nodes[features.count + i] = (tree_node){.mode = BRANCH_LEAF, .first = i, .many = 1};
        f->targets[i] = integer_at(&targets, i);
        f->weights[i] = number_at(&weights, i);
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < roots.count; i++) {
        f->roots[i] = way_to(call, f, features.count, integer_at(&roots, i), false);
    }
    take_members(call, f, &members);
}

// ---- questions ----

/// The largest number of the rows' kind that is at most t.
static double at_most(const written *w, double t)
{
    float narrow = (float)t;
    return w->wide               ? t
           : (double)narrow <= t ? (double)narrow
                                 : (double)nextafterf(narrow, -INFINITY);
}

/// The largest below t; none where t is the smallest. Devices may take numbers below the smallest
/// normal one for 0.
static double below(const written *w, double t)
{
    if (isinf(t) && t < 0) {
        return (double)NAN;
    }
    double next = w->wide ? nextafter(t, -INFINITY) : (double)nextafterf((float)t, -INFINITY);
    double least = w->wide ? DBL_MIN : (double)FLT_MIN;
    if (!w->wide && (double)(float)t != t) {
        next = at_most(w, t);
    }
    return next < 0 && next > -least ? -least : next;
}

static bool make_room(kilni_onnx_call *call, written *w)
{
    const kiln_env *env = &call->session->env;
    if (!kilni_onnx_ok(call) || w->count < w->room) {
        return kilni_onnx_ok(call);
    }
    int64_t room = w->room == 0 ? 256 : w->room * 2;
    double *thresholds = take(call, room, sizeof(*thresholds));
    int32_t *features = take(call, room, sizeof(*features));
    int32_t *others = take(call, room, sizeof(*others));
    if (room > KILNI_ONNX_MAX_LIST) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "trees of more than %d nodes",
                        KILNI_ONNX_MAX_LIST);
    }
    if (!kilni_onnx_ok(call)) {
        kiln_free(env, thresholds);
        kiln_free(env, features);
        kiln_free(env, others);
        return false;
    }
    if (w->count > 0) {
        memcpy(thresholds, w->thresholds, (size_t)w->count * sizeof(*thresholds));
        memcpy(features, w->features, (size_t)w->count * sizeof(*features));
        memcpy(others, w->others, (size_t)w->count * sizeof(*others));
    }
    kiln_free(env, w->thresholds);
    kiln_free(env, w->features);
    kiln_free(env, w->others);
    w->thresholds = thresholds;
    w->features = features;
    w->others = others;
    w->room = room;
    return true;
}

/// A question whose other way is not written yet: it waits for node `no` of the forest.
static void ask(kilni_onnx_call *call, written *w, int64_t feature, double threshold, bool nan,
                int64_t no)
{
    if (feature < 0 || feature > INT32_MAX / 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a node asks for column %lld", (long long)feature);
    }
    if (!make_room(call, w)) {
        return;
    }
    w->thresholds[w->count] = threshold;
    w->features[w->count] = (int32_t)(2 * feature + nan);
    w->others[w->count] = (int32_t)(-2 - (no < 0 ? -1 : w->waiting[no] - 1));
    if (no >= 0) {
        w->waiting[no] = w->count + 1;
    }
    w->count++;
}

/// x == a: at most a, and then not at most what is below; the false way comes next.
static void ask_equal(kilni_onnx_call *call, written *w, const tree_node *node, double value,
                      bool nan, int64_t yes)
{
    bool there = at_most(w, value) == value; // else no row has it
    ask(call, w, node->feature, there ? value : (double)NAN, nan, -1);
    ask(call, w, node->feature, below(w, value), false, yes);
    if (kilni_onnx_ok(call)) {
        w->others[w->count - 2] = (int32_t)w->count; // past both
    }
}

static void ask_members(kilni_onnx_call *call, written *w, const tree_node *node)
{
    if (node->many == 0) {
        ask(call, w, node->feature, (double)NAN, node->missing, node->no);
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < node->many; i++) {
        ask_equal(call, w, node, w->forest->members[node->first + i], node->missing, node->yes);
    }
}

/// Writes what a node asks, and says which way is written behind it.
static int64_t write_node(kilni_onnx_call *call, written *w, const tree_node *node)
{
    switch (node->mode) {
    case BRANCH_LEQ:
        ask(call, w, node->feature, at_most(w, node->value), node->missing, node->no);
        return node->yes;
    case BRANCH_LT:
        ask(call, w, node->feature, below(w, node->value), node->missing, node->no);
        return node->yes;
    case BRANCH_GTE:
        ask(call, w, node->feature, below(w, node->value), !node->missing, node->yes);
        return node->no;
    case BRANCH_GT:
        ask(call, w, node->feature, at_most(w, node->value), !node->missing, node->yes);
        return node->no;
    case BRANCH_EQ:
        ask_equal(call, w, node, node->value, node->missing, node->yes);
        return node->no;
    case BRANCH_NEQ: // what is not a number differs
        ask_equal(call, w, node, node->value, false, node->no);
        return node->yes;
    default:
        ask_members(call, w, node);
        return node->many == 0 ? node->yes : node->no;
    }
}

static void write_leaf(kilni_onnx_call *call, written *w, const tree_node *node)
{
    if (make_room(call, w)) {
        w->thresholds[w->count] = 0;
        w->features[w->count] = (int32_t)(-1 - node->many);
        w->others[w->count] = (int32_t)node->first;
        w->count++;
    }
}

/// Those that wait for a node learn where it is.
static void settle(written *w, int64_t index)
{
    int64_t at = w->waiting[index] - 1;
    w->waiting[index] = 0;
    while (at >= 0) {
        int64_t before = -2 - (int64_t)w->others[at];
        w->others[at] = (int32_t)w->count;
        at = before;
    }
}

/// One tree: its true ways first, the others from a stack. A node that two ways lead to is written
/// for each. Ways that lead back are found by the number of nodes.
static void write_tree(kilni_onnx_call *call, written *w, int64_t root)
{
    int64_t depth = 0, written_nodes = 0;
    w->stack[depth++] = root;
    while (depth > 0 && kilni_onnx_ok(call)) {
        int64_t index = w->stack[--depth];
        settle(w, index);
        while (kilni_onnx_ok(call)) {
            const tree_node *node = &w->forest->nodes[index];
            if (++written_nodes > 2 * w->forest->n_nodes + 1) {
                KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a tree's ways lead back or meet");
                return;
            }
            if (node->mode == BRANCH_LEAF) {
                write_leaf(call, w, node);
                break;
            }
            int64_t next = write_node(call, w, node);
            w->stack[depth++] = next == node->yes ? node->no : node->yes;
            index = next;
        }
    }
}

// ---- lists ----

static kilni_onnx_ref int_list(kilni_onnx_call *call, int64_t count, const int32_t *values)
{
    return kilni_onnx_const_data(call, KILN_DTYPE_I32, 1, &count, values);
}

static kilni_onnx_ref float_list_of(kilni_onnx_call *call, bool wide, int64_t count,
                                    const double *values)
{
    kiln_dtype dtype = wide ? KILN_DTYPE_F64 : KILN_DTYPE_F32;
    kilni_onnx_ref list = kilni_onnx_scratch(call, dtype, 1, &count);
    for (int64_t i = 0; list != NULL && i < count; i++) {
        if (wide) {
            ((double *)list->owned)[i] = values[i];
        } else {
            ((float *)list->owned)[i] = (float)values[i];
        }
    }
    return list;
}

static kilni_onnx_ref narrowed_list(kilni_onnx_call *call, int64_t count, const int64_t *values)
{
    kilni_onnx_ref list = kilni_onnx_scratch(call, KILN_DTYPE_I32, 1, &count);
    for (int64_t i = 0; list != NULL && i < count; i++) {
        ((int32_t *)list->owned)[i] =
            values[i] < 0 || values[i] > INT32_MAX ? -1 : (int32_t)values[i];
    }
    return list;
}

/// Whether all weights are of one class, and none is below 0.
static kilni_onnx_ref facts_list(kilni_onnx_call *call, const forest *f)
{
    int64_t facts[] = {1, 1};
    for (int64_t i = 0; i < f->n_weights; i++) {
        facts[0] = facts[0] && f->targets[i] == f->targets[0];
        facts[1] = facts[1] && f->weights[i] >= 0;
    }
    return kilni_onnx_const_ints(call, facts, 2);
}

static void write_forest(kilni_onnx_call *call, const forest *f, written *w, kilni_onnx_ref bundle)
{
    int64_t *roots = take(call, f->n_roots, sizeof(*roots));
    w->waiting = take(call, f->n_nodes, sizeof(*w->waiting));
    w->stack = take(call, 2 * f->n_nodes + 2, sizeof(*w->stack));
    for (int64_t i = 0; kilni_onnx_ok(call) && i < f->n_roots; i++) {
        roots[i] = w->count;
        write_tree(call, w, f->roots[i]);
    }
    if (kilni_onnx_ok(call)) {
        const kilni_onnx_ref lists[] = {float_list_of(call, w->wide, w->count, w->thresholds),
                                        float_list_of(call, w->wide, f->n_weights, f->weights),
                                        int_list(call, w->count, w->features),
                                        int_list(call, w->count, w->others),
                                        narrowed_list(call, f->n_roots, roots),
                                        narrowed_list(call, f->n_weights, f->targets),
                                        facts_list(call, f)};
        for (unsigned i = 0; kilni_onnx_ok(call) && i < N_LISTS; i++) {
            bundle->items[i] = kilni_onnx_retain(lists[i]);
        }
    }
    const kiln_env *env = &call->session->env;
    kiln_free(env, roots);
    kiln_free(env, w->waiting);
    kiln_free(env, w->stack);
    kiln_free(env, w->thresholds);
    kiln_free(env, w->features);
    kiln_free(env, w->others);
}

/// The lists as a sequence, made once for a file's attributes.
static kilni_onnx_ref lists_of(kilni_onnx_call *call, bool wide, const char *const names[5])
{
    const kilni_onnx_attr *key = kilni_onnx_attr_find(call, "nodes_featureids");
    if (kilni_onnx_ok(call) && key == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'nodes_featureids' is missing");
        return NULL;
    }
    const void *address = (const char *)key + 1; // the address itself is the list's
    kilni_onnx_ref bundle = kilni_onnx_kept_of(call, address);
    if (bundle != NULL || !kilni_onnx_ok(call)) {
        return bundle;
    }
    forest f = {.env = call->session->env};
    written w = {.forest = &f, .wide = wide};
    bundle = kilni_onnx_sequence(call, N_LISTS);
    if (names != NULL) {
        read_older(call, &f, names);
    } else {
        read_newer(call, &f);
    }
    if (kilni_onnx_ok(call)) {
        write_forest(call, &f, &w, bundle);
    }
    kilni_onnx_keep_made(call, address, bundle);
    forest_fini(&f);
    return kilni_onnx_ok(call) ? bundle : NULL;
}

// ---- scores ----

/// Rows in the type that they are compared in. Classes ask for `precise` sums where the device has
/// them: shares of trees that are even stay even, so the first class wins as in training.
static kilni_onnx_ref rows_of(kilni_onnx_call *call, bool precise, bool *out_wide)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    *out_wide = kilni_onnx_ok(call) && (precise || x->desc.dtype == KILN_DTYPE_F64) &&
                kilni_onnx_computes(call, KILN_DTYPE_F64);
    if (!kilni_onnx_ok(call) || kilni_onnx_is_text(x) || x->desc.rank < 1 || x->desc.rank > 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input 0 is no list or table of numbers");
        return NULL;
    }
    const int64_t dims[] = {x->desc.rank == 1 ? 1 : x->desc.dims[0],
                            x->desc.dims[x->desc.rank - 1]};
    return kilni_onnx_cast(call, kilni_onnx_reshape(call, x, dims, 2),
                           *out_wide ? KILN_DTYPE_F64 : KILN_DTYPE_F32);
}

static kilni_onnx_ref summed(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref bundle,
                             int64_t count, const char *mode)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    const kilni_onnx_ref inputs[] = {x,
                                     bundle->items[THRESHOLDS],
                                     bundle->items[WEIGHTS],
                                     bundle->items[FEATURES],
                                     bundle->items[OTHERS],
                                     bundle->items[ROOTS],
                                     bundle->items[TARGETS]};
    const kiln_attr attrs[] = {kilni_attr_i64(count), kilni_attr_text(mode)};
    if (x->desc.dtype != bundle->items[THRESHOLDS]->desc.dtype) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "rows of two types for the same trees");
        return NULL;
    }
    return kilni_onnx_emit(call, KILN_OP_TREE_ENSEMBLE, inputs, 7, attrs, 2);
}

/// Values that every row begins with, where there are any: one for each column.
static kilni_onnx_ref based(kilni_onnx_call *call, kilni_onnx_ref scores)
{
    numbers base = either(call, "base_values", "base_values_as_tensor");
    if (!kilni_onnx_ok(call) || base.count == 0) {
        return scores;
    }
    if (base.count != 1 && base.count != scores->desc.dims[1]) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "base_values has %lld numbers for %lld columns",
                        (long long)base.count, (long long)scores->desc.dims[1]);
        return NULL;
    }
    kilni_onnx_ref values = kilni_onnx_cast(call, base.list, scores->desc.dtype);
    return kilni_onnx_binary(call, KILN_OP_ADD, scores, values);
}

/// How leaves become scores: by name, or by TreeEnsemble's numbers AVERAGE, SUM, MIN, MAX.
static kilni_onnx_ref aggregated(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref bundle,
                                 int64_t count, const char *how)
{
    bool average = strcmp(how, "AVERAGE") == 0;
    const char *mode = average || strcmp(how, "SUM") == 0 ? "sum"
                       : strcmp(how, "MIN") == 0          ? "min"
                       : strcmp(how, "MAX") == 0          ? "max"
                                                          : NULL;
    if (mode == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "aggregate_function '%s' is not AVERAGE, SUM, MIN or MAX", how);
    }
    kilni_onnx_ref scores = summed(call, x, bundle, count, mode);
    int64_t trees = kilni_onnx_ok(call) ? kiln_desc_count(&bundle->items[ROOTS]->desc) : 0;
    return average && trees > 0 ? kilni_onnx_scalar(call, KILN_OP_DIV_SCALAR, scores, (double)trees)
                                : scores;
}

void kilni_onnx_op_tree_ensemble_regressor(kilni_onnx_call *call)
{
    static const char *const names[] = {"target_treeids", "target_nodeids", "target_ids",
                                        "target_weights", "target_weights_as_tensor"};
    bool wide = false;
    kilni_onnx_ref x = rows_of(call, false, &wide);
    kilni_onnx_ref bundle = kilni_onnx_ok(call) ? lists_of(call, wide, names) : NULL;
    const char *how = kilni_onnx_attr_text(call, "aggregate_function", "SUM");
    int64_t count = kilni_onnx_attr_int(call, "n_targets", 1);
    kilni_onnx_ref scores = based(call, aggregated(call, x, bundle, count, how));
    scores = kilni_onnx_cast(call, scores, KILN_DTYPE_F32);
    kilni_onnx_out(call, 0, kilni_onnx_ml_transformed(call, scores, kilni_onnx_ml_transform(call)));
}

void kilni_onnx_op_tree_ensemble(kilni_onnx_call *call)
{
    static const char *const ways[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    bool wide = false;
    kilni_onnx_ref x = rows_of(call, false, &wide);
    kilni_onnx_ref bundle = kilni_onnx_ok(call) ? lists_of(call, wide, NULL) : NULL;
    int64_t how = kilni_onnx_attr_int(call, "aggregate_function", 1);
    int64_t transform = kilni_onnx_attr_int(call, "post_transform", 0);
    int64_t count = kilni_onnx_attr_int(call, "n_targets", 1);
    if (how < 0 || how > 3 || transform < KILNI_ONNX_NONE || transform > KILNI_ONNX_PROBIT) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "aggregate_function %lld or post_transform %lld",
                        (long long)how, (long long)transform);
        return;
    }
    kilni_onnx_ref scores = aggregated(call, x, bundle, count, ways[how]);
    if (kilni_onnx_ok(call)) {
        scores = kilni_onnx_cast(call, scores, call->inputs[0]->desc.dtype);
    }
    kilni_onnx_out(call, 0,
                   kilni_onnx_ml_transformed(call, scores, (kilni_onnx_transform)transform));
}

/// Two classes of which the leaves know one: its scores stand in the column of that class.
static void classify_binary(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref bundle,
                            kilni_onnx_ref labels)
{
    static const int64_t axis = 1;
    numbers base = either(call, "base_values", "base_values_as_tensor");
    bool shares = ((const int64_t *)bundle->items[FACTS]->host)[1] != 0;
    kilni_onnx_ref score = summed(call, x, bundle, 2, "sum");
    score = kilni_onnx_reduce(call, KILN_OP_SUM, score, &axis, 1, true);
    score = kilni_onnx_cast(call, score, KILN_DTYPE_F32);
    if (base.count > 0) {
        score =
            kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, score, number_at(&base, base.count - 1));
    }
    kilni_onnx_ml_binary(call, labels, score, shares ? 0.5 : 0, shares,
                         kilni_onnx_ml_transform(call));
}

void kilni_onnx_op_tree_ensemble_classifier(kilni_onnx_call *call)
{
    static const char *const names[] = {"class_treeids", "class_nodeids", "class_ids",
                                        "class_weights", "class_weights_as_tensor"};
    bool wide = false;
    kilni_onnx_ref x = rows_of(call, true, &wide);
    kilni_onnx_ref bundle = kilni_onnx_ok(call) ? lists_of(call, wide, names) : NULL;
    kilni_onnx_ref labels = kilni_onnx_ml_labels(call, "classlabels_int64s");
    if (!kilni_onnx_ok(call) || labels == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the classes have no labels");
        return;
    }
    int64_t count = kiln_desc_count(&labels->desc);
    if (count == 2 && ((const int64_t *)bundle->items[FACTS]->host)[0] != 0) {
        classify_binary(call, x, bundle, labels);
        return;
    }
    kilni_onnx_ref scores = based(call, summed(call, x, bundle, count, "sum"));
    scores = kilni_onnx_cast(call, scores, KILN_DTYPE_F32);
    kilni_onnx_ml_choose(call, labels, kilni_onnx_ml_largest(call, scores));
    kilni_onnx_out(call, 1, kilni_onnx_ml_transformed(call, scores, kilni_onnx_ml_transform(call)));
}
