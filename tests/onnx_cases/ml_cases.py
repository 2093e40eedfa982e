# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of strings and of ai.onnx.ml, with what NumPy and a few lines say. Maps are in no file: test_onnx_text.c."""
import math

from case_writer import F32, I64, case, floats, ints, np, one
from onnx_writer import node

ML = "ai.onnx.ml"
WORDS = np.array([["red", "Grün", ""], ["blue", "red", "日本"]])


def ml(name, op, inputs, outputs, **attributes):
    one("ml_" + name, op, inputs, outputs, 21, domain=ML, **attributes)


# ---- strings ----

def moved():
    """What only moves or compares: strings go where numbers go."""
    other = np.array([["red", "x", ""], ["y", "red", "z"]])
    one("string_identity_21", "Identity", [WORDS], [WORDS], 21)
    one("string_reshape_21", "Reshape", [WORDS, ints(3, -1)], [WORDS.reshape(3, 2)], 21)
    one("string_transpose_21", "Transpose", [WORDS], [WORDS.T], 21)
    one("string_gather_21", "Gather", [WORDS, ints(2, 0)], [WORDS[:, [2, 0]]], 21, axis=1)
    one("string_concat_axis_21", "Concat", [WORDS, other], [np.concatenate((WORDS, other))], 21, axis=0)
    one("string_squeeze_21", "Squeeze", [WORDS[None], ints(0)], [WORDS], 21)
    one("string_slice_21", "Slice", [WORDS, ints(1), ints(3), ints(1)], [WORDS[:, 1:3]], 21)
    one("string_expand_21", "Expand", [WORDS[:1], ints(2, 3)], [WORDS[[0, 0]]], 21)
    one("string_where_21", "Where", [other == "y", WORDS, other], [np.where(other == "y", WORDS, other)], 21)
    one("string_equal_21", "Equal", [WORDS, other], [WORDS == other], 21)
    one("string_shape_21", "Shape", [WORDS], [ints(2, 3)], 21)
    case("string_constants_21", [node("Constant", [], ["a"], value=np.array(["x", "y"])),
                                 node("Constant", [], ["b"], value_string="-"),
                                 node("Constant", [], ["c"], value_strings=["1", "2"]),
                                 node("StringConcat", ["a", "b"], ["d"]), node("StringConcat", ["d", "c"], ["y"]),
                                 node("Identity", ["x"], ["z"])],
         {"x": floats(2)}, {"y": np.array(["x-1", "y-2"])}, 21)


def looked_into():
    one("string_concat_20", "StringConcat", [WORDS, np.array(["!", "?", "."])],
        [np.char.add(WORDS, np.array(["!", "?", "."]))], 20)
    text = np.array(["a,b,c", "", ",d", "e"])
    one("string_split_20", "StringSplit", [text],
        [np.array([["a", "b", "c"], ["", "", ""], ["", "d", ""], ["e", "", ""]]), ints(3, 1, 2, 1)], 20, delimiter=",")
    one("string_split_blanks_20", "StringSplit", [np.array(["  a b  c ", " "])],
        [np.array([["a", "b  c"], ["", ""]]), ints(2, 0)], 20, maxsplit=1)
    one("string_normalizer_upper_10", "StringNormalizer", [np.array(["Grün", "rot", "ROT"])], [np.array(["GRÜN"])],
        10, case_change_action="UPPER", stopwords=["Rot"], is_case_sensitive=0)
    numbers = np.array(["1", "-2.5", "NaN", "INF", "1e3"])
    one("string_to_float_21", "Cast", [numbers], [numbers.astype(F32)], 21, to=1)
    one("string_to_int_21", "Cast", [np.array(["7", "-9223372036854775808"])], [ints(7, -2 ** 63)], 21, to=7)
    one("string_of_float_21", "Cast", [np.array([0.1, 1.5, -math.inf], F32)], [np.array(["0.1", "1.5", "-INF"])], 21,
        to=8)
    one("string_of_int_21", "CastLike", [ints(3, -4), np.array(["x"])], [np.array(["3", "-4"])], 21)
    one("string_tfidf_9", "TfIdfVectorizer", [np.array([["a", "b", "a"], ["c", "b", "x"]])],
        [np.array([[2, 1, 1], [0, 1, 0]], F32)], 9, mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
        ngram_counts=[0, 2], ngram_indexes=[0, 1, 2], pool_strings=["a", "b", "b", "a"])


def matched():
    trials = (("a|bc", "bc", True), ("a|bc", "abc", False), ("(?:ab)*", "abab", True), ("(?:ab)*", "aba", False),
              (r"[\w.+-]+@[\w-]+\.[a-z]{2,3}", "x.y@z-1.org", True), (r"[\w.+-]+@[\w-]+\.[a-z]{2,3}", "x@y.o", False),
              (r"^\d{4}-\d\d$", "2026-11", True), ("[^a-c]+?", "xyz", True), ("[^a-c]+?", "xaz", False),
              ("a.c", "aüc", True), ("a.c", "a\nc", False), ("[[:alpha:]]+", "Word", True), (r"\D\S\W", "aa ", True),
              (r"\bfoo\b.*", "foo bar", True), (r"\bfoo\b.*", "foobar", False), ("x{0}y", "y", True),
              ("(a*)*b", "a" * 40, False), ("(?P<n>[]a]-?)+", "]a-", True), ("", "", True),
              (r"\x41\x{e9}", "Aé", True))
    for i, (pattern, text, matches) in enumerate(trials):
        one(f"regex_full_match_{i}_20", "RegexFullMatch", [np.array([text])], [np.array([matches])], 20,
            pattern=pattern)


# ---- trees ----

#: two trees: feature, mode, value, true and false child, what is not a number tracks true; a leaf has its weights
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
HOLDS = [lambda x, t: x <= t, lambda x, t: x < t, lambda x, t: x >= t, lambda x, t: x > t, lambda x, t: x == t,
         lambda x, t: x != t]


def grow(depth, random, classes):
    """A list of nodes: (feature, mode, value, yes, no, missing) or the leaf's weights by class."""
    nodes = []

    def add(level):
        place = len(nodes)
        nodes.append(None)
        if level == 0:
            nodes[place] = {int(c): float(F32(random.normal())) for c in classes}
        else:
            mode = int(random.integers(6))
            value = float(random.integers(-2, 3)) / 2
            yes = add(level - 1)
            nodes[place] = (int(random.integers(3)), mode, value, yes, add(level - 1), int(random.integers(2)))
        return place
    add(depth)
    return nodes


def leaf_of(nodes, row):
    at = nodes[0]
    while isinstance(at, tuple):
        feature, mode, value, yes, no, missing = at
        on = HOLDS[mode](row[feature], value) or (missing and np.isnan(row[feature]))
        at = nodes[yes if on else no]
    return at


def attributes_of(trees, kind):
    flat = [(t, n, node) for t, nodes in enumerate(trees) for n, node in enumerate(nodes)]
    inner = [(node if isinstance(node, tuple) else (0, -1, 0.0, 0, 0, 0)) for _, _, node in flat]
    leaves = [(t, n, c, w) for t, n, node in flat if isinstance(node, dict) for c, w in node.items()]
    leaf = {f"{kind}_treeids": [x[0] for x in leaves], f"{kind}_nodeids": [x[1] for x in leaves],
            f"{kind}_ids": [x[2] for x in leaves], f"{kind}_weights": [x[3] for x in leaves]}
    return dict(leaf, nodes_treeids=[t for t, _, _ in flat], nodes_nodeids=[n for _, n, _ in flat],
                nodes_featureids=[x[0] for x in inner], nodes_values=[x[2] for x in inner],
                nodes_modes=[MODES[x[1]] if x[1] >= 0 else "LEAF" for x in inner],
                nodes_truenodeids=[x[3] for x in inner], nodes_falsenodeids=[x[4] for x in inner],
                nodes_missing_value_tracks_true=[x[5] for x in inner])


def scores_of(trees, x, count, base=None, how=np.sum):
    out = np.zeros((len(x), count))
    for i, row in enumerate(x):
        leaves = [leaf_of(nodes, row) for nodes in trees]
        for c in range(count):
            given = [leaf[c] for leaf in leaves if c in leaf]
            out[i, c] = how(given) if given else 0
    return out + (0 if base is None else np.array(base))


def transformed(scores, how):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return {"NONE": scores, "LOGISTIC": 1 / (1 + np.exp(-scores)), "SOFTMAX": e / e.sum(-1, keepdims=True)}[how]


def trees():
    random = np.random.default_rng(11)
    x = np.array(random.integers(-3, 4, (40, 3)) / 2, F32)
    x[random.random(x.shape) < 0.15] = np.nan
    forest = [grow(3, random, (0, 1, 2)) for _ in range(5)] + [grow(0, random, (1,))]
    for how, by in (("SUM", np.sum), ("AVERAGE", lambda v: np.sum(v) / 6), ("MIN", np.min), ("MAX", np.max)):
        ml(f"tree_regressor_{how.lower()}", "TreeEnsembleRegressor", [x],
           [scores_of(forest, x, 3, [0.5, 0, -1], by).astype(F32)], n_targets=3, aggregate_function=how,
           base_values=[0.5, 0.0, -1.0], **attributes_of(forest, "target"))
    scores = scores_of(forest, x, 3)
    for how in ("NONE", "LOGISTIC", "SOFTMAX"):
        ml(f"tree_classifier_{how.lower()}", "TreeEnsembleClassifier", [x],
           [np.array(["a", "b", "c"])[scores.argmax(1)], transformed(scores, how).astype(F32)],
           classlabels_strings=["a", "b", "c"], post_transform=how, **attributes_of(forest, "class"))
    single = [grow(2, random, (0,)) for _ in range(3)]
    score = scores_of(single, x, 1)
    ml("tree_classifier_binary", "TreeEnsembleClassifier", [x],
       [np.where(score[:, 0] > 0, 7, 4).astype(I64),
        transformed(np.concatenate((-score, score), 1), "LOGISTIC").astype(F32)],
       classlabels_int64s=[4, 7], post_transform="LOGISTIC", **attributes_of(single, "class"))
    wide = [grow(3, random, (0,)) for _ in range(4)]
    given = attributes_of(wide, "target")
    given["nodes_values_as_tensor"] = np.array(given.pop("nodes_values"))
    given["target_weights_as_tensor"] = np.array(given.pop("target_weights"))
    ml("tree_regressor_double", "TreeEnsembleRegressor", [x.astype(np.float64)], [scores_of(wide, x, 1).astype(F32)],
       n_targets=1, **given)
    forest_of(500, 1000)


def forest_of(count, rows, depth=4):
    """As many full trees on as many rows: what a boosted model has. Children of node n are 2n+1 and 2n+2."""
    random = np.random.default_rng(5)
    inner, nodes = 2 ** depth - 1, 2 ** (depth + 1) - 1
    x = random.standard_normal((rows, 8)).astype(F32)
    features, values = random.integers(0, 8, (count, inner)), random.standard_normal((count, inner)).astype(F32)
    weights = random.random((count, nodes)).astype(F32)
    y = np.zeros(rows)
    for feature, value, weight in zip(features, values, weights):
        at = np.zeros(rows, np.int64)
        for _ in range(depth):
            at = 2 * at + 2 - (x[np.arange(rows), feature[at]] <= value[at])
        y += weight[at]
    trees = [[(int(f), 0, float(v), 2 * n + 1, 2 * n + 2, 0) for n, (f, v) in enumerate(zip(*of))] +
             [{0: float(w)} for w in leaves[inner:]] for *of, leaves in zip(features, values, weights)]
    ml(f"tree_regressor_{count}_trees_{rows}_rows", "TreeEnsembleRegressor", [x], [y.astype(F32)[:, None]],
       n_targets=1, **attributes_of(trees, "target"))


def sets():
    """TreeEnsemble of version 5: a set, then a threshold; leaves stand by themselves."""
    x = np.array([[1, 5], [3, 5], [2, 0.5], [4, 3], [np.nan, 0]], F32)
    weights = np.array([10, 20, 30], F32)
    y = [[10.0], [10.0], [20.0], [30.0], [20.0]]
    ml("tree_ensemble_sets", "TreeEnsemble", [x], [np.array(y, F32)], n_targets=1, aggregate_function=1,
       post_transform=0, tree_roots=[0], nodes_featureids=[0, 1], nodes_modes=np.array([6, 1], np.uint8),
       nodes_splits=np.array([0, 3], F32), nodes_truenodeids=[0, 1], nodes_trueleafs=[1, 1],
       nodes_falsenodeids=[1, 2], nodes_falseleafs=[0, 1], membership_values=np.array([1, 3, np.nan], F32),
       leaf_targetids=[0, 0, 0], leaf_weights=weights)


# ---- linear ----

def lines():
    x, w, b = floats(6, 4), floats(3, 4), floats(3)
    y = x @ w.T + b
    ml("linear_regressor", "LinearRegressor", [x], [y], coefficients=w.ravel().tolist(), intercepts=b.tolist(),
       targets=3)
    ml("linear_classifier", "LinearClassifier", [x], [np.array([5, 6, 9])[y.argmax(1)], transformed(y, "SOFTMAX")],
       coefficients=w.ravel().tolist(), intercepts=b.tolist(), classlabels_ints=[5, 6, 9], post_transform="SOFTMAX")
    e = np.exp(y - y.max(1, keepdims=True))
    ml("linear_softmax_zero", "LinearRegressor", [x], [e / e.sum(1, keepdims=True)], targets=3,
       coefficients=w.ravel().tolist(), intercepts=b.tolist(), post_transform="SOFTMAX_ZERO")
    p = np.array([[0.5], [0.9], [0.1]], F32)
    ml("linear_probit", "LinearRegressor", [p], [np.array([[0], [1.2805], [-1.2805]], F32)], coefficients=[1.0],
       post_transform="PROBIT")


def kernels(x, v, kind):
    distance = ((x[:, None] - v[None]) ** 2).sum(2)
    return {"LINEAR": x @ v.T, "POLY": (0.5 * (x @ v.T) + 1) ** 2, "RBF": np.exp(-0.5 * distance),
            "SIGMOID": np.tanh(0.5 * (x @ v.T) + 1)}[kind]


def coupled(share):
    """Of two classes, as libsvm has it: steps until the probabilities change little."""
    r, p = np.array([[0, share], [1 - share, 0]]), np.array([0.5, 0.5])
    q = np.array([[r[1, 0] ** 2, -r[1, 0] * r[0, 1]], [-r[0, 1] * r[1, 0], r[0, 1] ** 2]])
    for _ in range(100):
        qp = q @ p
        total = p @ qp
        if abs(qp - total).max() < 0.005 / 2:
            break
        for t in range(2):
            step = (total - qp[t]) / q[t, t]
            p[t] += step
            total = (total + step * (step * q[t, t] + 2 * qp[t])) / (1 + step) ** 2
            qp, p = (qp + step * q[t]) / (1 + step), p / (1 + step)
    return p


def machines():
    x, v, c = floats(5, 3), floats(6, 3), floats(2, 6)
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        ml(f"svm_regressor_{kind.lower()}", "SVMRegressor", [x], [kernels(x, v, kind) @ c[:1].T + F32(0.25)],
           n_supports=6, kernel_type=kind, kernel_params=[0.5, 1.0, 2.0], support_vectors=v.ravel().tolist(),
           coefficients=c[0].tolist(), rho=[0.25])
    ml("svm_one_class", "SVMRegressor", [x], [np.where(x @ v[:1].T > 0, 1, -1).astype(F32)], one_class=1,
       coefficients=v[0].tolist(), rho=[0.0])
    each, rho = [2, 1, 3], [0.1, -0.2, 0.3]
    k, starts, decisions = kernels(x, v, "RBF"), [0, 2, 3], []
    for i in range(3):
        for j in range(i + 1, 3):
            a, b = slice(starts[i], starts[i] + each[i]), slice(starts[j], starts[j] + each[j])
            decisions.append(k[:, a] @ c[j - 1, a] + k[:, b] @ c[i, b] + F32(rho[len(decisions)]))
    decisions = np.array(decisions).T.astype(F32)
    votes = np.zeros((5, 3))
    for p, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        votes[:, i] += decisions[:, p] > 0
        votes[:, j] += decisions[:, p] <= 0
    given = dict(classlabels_strings=["a", "b", "c"], vectors_per_class=each, support_vectors=v.ravel().tolist(),
                 coefficients=c.ravel().tolist(), kernel_params=[0.5, 0.0, 0.0], kernel_type="RBF")
    ml("svm_classifier", "SVMClassifier", [x], [np.array(["a", "b", "c"])[votes.argmax(1)], decisions], rho=rho,
       **given)
    k2 = kernels(x, v[:3], "RBF")
    d = k2[:, :2] @ c[0, :2] + k2[:, 2:] @ c[0, 2:3] + F32(0.1)
    likely = np.array([coupled(1 / (1 + np.exp(0.5 - 2 * r))) for r in d.astype(np.float64)], F32)
    ml("svm_likely", "SVMClassifier", [x], [np.where(d > 0, 3, 8), likely],
       classlabels_ints=[3, 8], vectors_per_class=[2, 1], support_vectors=v[:3].ravel().tolist(), rho=[0.1],
       coefficients=c[0, :3].tolist(), kernel_params=[0.5, 0.0, 0.0], kernel_type="RBF", prob_a=[-2.0], prob_b=[0.5])


# ---- columns ----

def columns():
    x = floats(4, 3)
    ml("scaler", "Scaler", [x], [(x - F32(0.5)) * np.array([1, 2, 4], F32)], offset=[0.5], scale=[1.0, 2.0, 4.0])
    zero = x * np.array([[1], [0], [1], [1]], F32)
    sizes = {"MAX": abs(zero).max(1), "L1": abs(zero).sum(1), "L2": np.sqrt((zero * zero).sum(1))}
    for norm, size in sizes.items():
        ml(f"normalizer_{norm.lower()}", "Normalizer", [zero], [zero / np.where(size == 0, 1, size)[:, None]],
           norm=norm)
    ml("binarizer", "Binarizer", [x], [(x > F32(0.25)).astype(F32)], threshold=0.25)
    holed = np.where(x > 0.5, F32(np.nan), x)
    ml("imputer", "Imputer", [holed], [np.where(np.isnan(holed), np.array([1, 2, 3], F32), holed)],
       imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=math.nan)
    ml("imputer_ints", "Imputer", [ints(3, -1, 4)], [ints(3, 9, 4)], imputed_value_int64s=[9], replaced_value_int64=-1)
    ml("feature_vectorizer", "FeatureVectorizer", [x, ints(1, 2, 3, 4)],
       [np.concatenate((x, np.array([[1], [2], [3], [4]], F32)), 1)], inputdimensions=[3, 1])
    ml("array_feature_extractor", "ArrayFeatureExtractor", [x, ints(2, 0)], [x[:, [2, 0]]])
    ml("array_feature_strings", "ArrayFeatureExtractor", [WORDS[0], ints(1)], [WORDS[:1, 1:2]])
    ml("one_hot_strings", "OneHotEncoder", [WORDS], [(WORDS[..., None] == np.array(["red", "blue"])).astype(F32)],
       cats_strings=["red", "blue"])
    ml("one_hot_ints", "OneHotEncoder", [np.array([1, 3, 7], F32)], [np.array([[1, 0], [0, 1], [0, 0]], F32)],
       cats_int64s=[1, 3])
    ml("label_strings_ints", "LabelEncoder", [WORDS], [np.array([[5, -1, 8], [-1, 5, -1]], I64)],
       keys_strings=["red", ""], values_int64s=[5, 8])
    ml("label_floats_strings", "LabelEncoder", [np.array([1.5, np.nan, 2], F32)], [np.array(["a", "none", "?"])],
       keys_floats=[1.5, math.nan], values_strings=["a", "none"], default_string="?")
    ml("label_classes", "LabelEncoder", [np.array(["b", "x"])], [ints(1, -1)], classes_strings=["a", "b"])
    ml("label_classes_back", "LabelEncoder", [ints(1, 7)], [np.array(["b", "_Unused"])], classes_strings=["a", "b"])
    ml("category_mapper", "CategoryMapper", [np.array(["y", "z"])], [ints(20, -1)], cats_strings=["x", "y"],
       cats_int64s=[10, 20])


def make():
    for part in (moved, looked_into, matched, trees, sets, lines, machines, columns):
        part()
