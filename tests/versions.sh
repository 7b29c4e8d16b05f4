#!/usr/bin/env bash
# Tests on one end of the versions that pyproject.toml allows; `make test-versions` runs both ends.
#   tests/versions.sh lowest-direct|highest PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
end=$1
place=.venv-$end python=.venv-$end/bin/python limits=build/limits-$end.txt
mkdir -p build

case "$end ${VERSIONS:-}" in
  *full) default="tensorflow jax torch" chosen=() ;;
  lowest*) default=torch chosen=(-m "not slow") ;;
  *) default=jax chosen=(-m "not slow") ;;
esac

extras=tensorflow,jax,torch,transformers,lightning,tensorboard,dataframes,plot,remote,view,wandb
extras+=,mlflow,trackio,mcp,notebook
tools=(pip pytest pytest-xdist hypothesis httpx cloudpickle optax flax equinox scikit-learn ipython
  pyte playwright 'moto[s3]' flask flask-cors hatchling)
command -v uv >/dev/null || { echo "make test-versions needs uv: pip install uv" >&2; exit 1; }
test -x $python || uv venv --quiet --python "$2" $place
# The CPU build has the same modules as this.
echo tensorflow >build/excluded.txt
# TensorBoard 2.18 needs a part of setuptools that new versions lack; Matplotlib 3.8 calls what
# pyparsing 3.3 warns of.
[ "$end" = highest ] && : >$limits || printf '%s\n' 'setuptools<67' 'pyparsing<3.3' >$limits
install=(uv pip install --quiet --python $python --excludes build/excluded.txt)
"${install[@]}" --resolution "$end" --constraints $limits --editable ".[$extras]" 'tensorflow-cpu>=2.18'
# The tools are new ones, and leave the others as they are.
uv pip freeze --quiet --python $python --exclude-editable >build/frozen-$end.txt
"${install[@]}" --constraints build/frozen-$end.txt "${tools[@]}"
# The legacy Keras is that of this TensorFlow.
legacy=$(sed -n 's/^tensorflow-cpu==\([0-9]*\.[0-9]*\)\..*/tf_keras==\1.*/p' build/frozen-$end.txt)
"${install[@]}" --no-deps "$legacy"

# What old and new packages say of each other is no error. NumPy 1 says of torch and JAX in one
# process that they round subnormal numbers to 0, torch of Python 3.13.0 that it is slower.
run() {
  echo "== $end: $1 on ${KERAS_BACKEND}"
  $python -m pytest -q -p no:cacheprovider -n "${VERSION_WORKERS:-auto}" --dist worksteal \
    -W ignore::DeprecationWarning -W ignore::FutureWarning \
    -W 'ignore:The value of the smallest subnormal' -W 'ignore:Guards may run slower' ${chosen[@]+"${chosen[@]}"} "$@"
}
failed=0 # All of them run, whatever fails.
for backend in ${VERSION_BACKENDS:-$default}; do
  KERAS_BACKEND=$backend run tests/keras || failed=1
done
# Left out: the page in a browser, the sources, and what injects faults or starts many processes.
KERAS_BACKEND=torch run tests --ignore=tests/keras --ignore=tests/distributed \
  --ignore=tests/faults --ignore=tests/view/browser --ignore=tests/view/report \
  --ignore=tests/test_architecture.py || failed=1
exit $failed
