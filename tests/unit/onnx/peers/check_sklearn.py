#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Estimators of scikit-learn, written by skl2onnx and run by `kiln run`, against scikit-learn itself: labels equal,
numbers within 1e-5. KILN_TEST_PYTHON names a Python that has scikit-learn and skl2onnx. Skipped where there is none.

usage: check_sklearn.py KILN DEVICE [WORD..]: of the estimators those whose names contain a word
"""
import os
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("KILN_TEST_PYTHON")
if PYTHON and os.environ.get("KILN_TEST_PYTHON_USED") is None:
    sys.exit(subprocess.run([PYTHON, "-W", "ignore", *sys.argv], check=False,
                            env=dict(os.environ, KILN_TEST_PYTHON_USED="1", PYTHONDONTWRITEBYTECODE="1")).returncode)
try:
    import numpy as np
    import skl2onnx
    import sklearn
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn import (cluster, compose, datasets, decomposition, discriminant_analysis, ensemble, impute,
                         linear_model, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree)
except ImportError as why:
    print(f"SKIP {why}: pip install scikit-learn skl2onnx, and name that Python in KILN_TEST_PYTHON")
    print("kiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

from skl2onnx.common import _container

NEAR = 1e-5
WRITE = _container.make_node


def make_node(*args, **attributes):
    """Newer protobufs take no truth values for integers, which skl2onnx gives them."""
    for key, value in attributes.items():
        if isinstance(value, (list, tuple, np.ndarray)):
            attributes[key] = [int(v) if isinstance(v, (bool, np.bool_, np.integer)) else v for v in value]
    return WRITE(*args, **attributes)


_container.make_node = make_node


def classes(n):
    x, y = datasets.make_classification(300, 8, n_informative=6, n_classes=n, random_state=7)
    return x.astype(np.float32), y


def numbers():
    x, y = datasets.make_regression(300, 8, n_informative=6, noise=3, random_state=7)
    return x.astype(np.float32), (y / 50).astype(np.float32)


def holed(x):
    x = x.copy()
    x[np.random.default_rng(3).random(x.shape) < 0.1] = np.nan
    return x


TWO, FOUR, REAL = classes(2), classes(4), numbers()
MANY = np.random.default_rng(9).normal(0, 2, (10000, 8)).astype(np.float32)
NAMED = TWO[0], np.array(["no", "yes"])[TWO[1]]
HOLES = holed(REAL[0]), REAL[1]
WORDS = np.array([["red", "s"], ["green", "m"], ["blue", "l"], ["red", "l"]] * 40)


def pipe(*steps):
    return pipeline.make_pipeline(*steps)


def estimators():
    """Name, estimator, rows and what is to be learned; rows to be judged where these are others."""
    yield "LogisticRegression of two", linear_model.LogisticRegression(), *TWO
    yield "LogisticRegression of four", linear_model.LogisticRegression(), *FOUR
    yield "LogisticRegression of names", linear_model.LogisticRegression(), *NAMED
    yield "SGDClassifier", linear_model.SGDClassifier(random_state=1), *FOUR
    yield "LinearRegression", linear_model.LinearRegression(), *REAL
    yield "Ridge", linear_model.Ridge(), *REAL
    yield "Lasso", linear_model.Lasso(0.01), *REAL
    yield "LinearSVC", svm.LinearSVC(), *FOUR
    yield "SVC of two", svm.SVC(), *TWO
    yield "SVC of four", svm.SVC(kernel="poly"), *FOUR
    yield "SVC with probabilities", svm.SVC(probability=True, random_state=1), *FOUR
    yield "SVC of names with probabilities", svm.SVC(probability=True, random_state=1), *NAMED
    yield "NuSVC", svm.NuSVC(kernel="sigmoid", gamma=0.05, nu=0.3), *TWO
    yield "SVR", svm.SVR(), *REAL
    yield "NuSVR", svm.NuSVR(kernel="linear"), *REAL
    yield "DecisionTreeClassifier", tree.DecisionTreeClassifier(random_state=1), *FOUR
    yield "DecisionTreeRegressor", tree.DecisionTreeRegressor(random_state=1), *REAL
    yield "RandomForestClassifier of two", ensemble.RandomForestClassifier(20, random_state=1), *NAMED
    yield "RandomForestClassifier of four", ensemble.RandomForestClassifier(20, random_state=1), *FOUR
    yield "RandomForestRegressor", ensemble.RandomForestRegressor(20, random_state=1), *REAL
    yield "ExtraTreesRegressor", ensemble.ExtraTreesRegressor(20, random_state=1), *REAL
    yield "GradientBoostingClassifier of two", ensemble.GradientBoostingClassifier(n_estimators=20), *TWO
    yield "GradientBoostingClassifier of four", ensemble.GradientBoostingClassifier(n_estimators=20), *FOUR
    yield "GradientBoostingRegressor", ensemble.GradientBoostingRegressor(n_estimators=20), *REAL
    yield "500 trees on 10000 rows", ensemble.GradientBoostingRegressor(n_estimators=500), *REAL, MANY
    yield "500 trees of a forest on 10000 rows", ensemble.RandomForestClassifier(500, random_state=1), *FOUR, MANY
    yield "HistGradientBoostingClassifier", ensemble.HistGradientBoostingClassifier(max_iter=20), *FOUR
    yield "HistGradientBoostingRegressor", ensemble.HistGradientBoostingRegressor(max_iter=20), *HOLES
    yield "AdaBoostClassifier", ensemble.AdaBoostClassifier(n_estimators=10, random_state=1), *TWO
    yield "BaggingRegressor", ensemble.BaggingRegressor(n_estimators=5, random_state=1), *REAL
    yield "KNeighborsClassifier", neighbors.KNeighborsClassifier(), *FOUR
    yield "KNeighborsRegressor", neighbors.KNeighborsRegressor(), *REAL
    yield "MLPClassifier", neural_network.MLPClassifier(hidden_layer_sizes=(16,), max_iter=100, random_state=1), *FOUR
    yield "MLPRegressor", neural_network.MLPRegressor(hidden_layer_sizes=(16,), max_iter=100, random_state=1), *REAL
    yield "GaussianNB", naive_bayes.GaussianNB(), *FOUR
    yield "BernoulliNB", naive_bayes.BernoulliNB(), *FOUR
    yield "LinearDiscriminantAnalysis", discriminant_analysis.LinearDiscriminantAnalysis(), *FOUR
    yield "KMeans", cluster.KMeans(4, n_init=3, random_state=1), *FOUR
    yield "PCA", decomposition.PCA(4), *REAL
    yield "Normalizer", preprocessing.Normalizer("l1"), *REAL
    yield "Binarizer", preprocessing.Binarizer(threshold=0.5), *REAL
    yield "MinMaxScaler", preprocessing.MinMaxScaler(), *REAL
    yield "Imputer, scaler, Ridge", pipe(impute.SimpleImputer(), preprocessing.StandardScaler(),
                                         linear_model.Ridge()), *HOLES
    yield "scaler, PCA, SVC", pipe(preprocessing.StandardScaler(), decomposition.PCA(5), svm.SVC(gamma=0.1)), *FOUR
    yield "normalizer, LogisticRegression", pipe(preprocessing.Normalizer(), linear_model.LogisticRegression()), *NAMED
    yield "OneHotEncoder of words", preprocessing.OneHotEncoder(handle_unknown="ignore"), WORDS, None
    yield "OrdinalEncoder of words", preprocessing.OrdinalEncoder(), WORDS, None
    yield "words, RandomForestClassifier", pipe(
        compose.ColumnTransformer([("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), [0, 1])]),
        ensemble.RandomForestClassifier(5, random_state=1)), WORDS, np.array(["a", "b"])[(WORDS[:, 0] == "red") * 1]


def expected(model, x):
    """The outputs as skl2onnx orders them."""
    if not hasattr(model, "predict") or not hasattr(model, "classes_"):
        values = model.predict(x) if hasattr(model, "predict") else model.transform(x)
        return [values.toarray() if hasattr(values, "toarray") else values]
    made = [model.predict(x)]
    if hasattr(model, "predict_proba"):
        made.append(model.predict_proba(x))
    return made


def compare(got, want, what):
    if want.dtype.kind in "UO":
        return [] if (got.astype(str).ravel() == want.astype(str).ravel()).all() else [f"{what}: labels differ"]
    got, want = got.astype(np.float64).reshape(want.shape), want.astype(np.float64)
    if what == "output 0" and np.equal(want, np.round(want)).all():
        return [] if np.array_equal(got, want) else [f"{what}: {np.count_nonzero(got != want)} differ"]
    error = float(np.max(np.abs(got - want) / np.maximum(1, np.abs(want)), initial=0))
    return [] if error <= NEAR else [f"{what}: off by {error:.3g}"]


def options_of(model, zipmap):
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return {id(model): {"zipmap": zipmap}} if hasattr(last, "classes_") and hasattr(last, "predict_proba") else None


def check(kiln, device, model, x, folder, zipmap):
    words = x.dtype.kind == "U"
    kind = (StringTensorType if words else FloatTensorType)([None, x.shape[1]])
    onx = skl2onnx.convert_sklearn(model, initial_types=[("X", kind)], options=options_of(model, zipmap))
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as file:
        file.write(onx.SerializeToString())
    np.save(os.path.join(folder, "x.npy"), x)
    wants = expected(model, x)
    names = [o.name for o in onx.graph.output][:len(wants)]
    command = [kiln, "run", path, "--device", device, "--input", f"X={folder}/x.npy"]
    for i, name in enumerate(names):
        command += ["--output", f"{name}={folder}/{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [(done.stderr or done.stdout).strip()]
    problems = []
    for i, want in enumerate(wants):
        problems += compare(np.load(f"{folder}/{i}.npy"), np.asarray(want), f"output {i}")
    return problems


def main():
    kiln, device, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    failed = passed = 0
    for number, (name, model, x, y, *others) in enumerate(estimators()):
        if words and not any(word in name for word in words):
            continue
        model.fit(x, y)
        with tempfile.TemporaryDirectory() as folder:
            try:
                problems = check(kiln, device, model, others[0] if others else x, folder, number % 2 == 0)
            except Exception as why:  # what a converter cannot write is told as well
                problems = [f"{type(why).__name__}: {str(why)[:160]}"]
        for problem in problems:
            print(f"FAIL {name}: {problem}")
        failed += bool(problems)
        passed += not problems
    print(f"scikit-learn {sklearn.__version__}, skl2onnx {skl2onnx.__version__}: {passed} of {passed + failed} agree")
    print(f"kiln-test: {int(failed == 0)} passed, {int(failed > 0)} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
