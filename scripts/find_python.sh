#!/bin/sh
# Print a Python that runs and can make virtual environments.
#   find_python.sh            3.11 or newer: python3 if it will do, else the newest that is found
#   find_python.sh 3.13 3.12  one of these versions, the first that is found
# Looked for on PATH and among pyenv's versions. None: one line on stderr, exit status 1.
pyenv_root=${PYENV_ROOT:-$HOME/.pyenv}

works() { # a shim of pyenv is there even where its Python is not selected: it must run
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

found() {
    works "$1" && "$1" -c 'import sys; print(sys.executable)' && exit 0
}

versions() { # 3.15, 3.14, …: of every python3.15 on PATH and every version that pyenv has
    (
        IFS=:
        for folder in $PATH; do ls "$folder"; done
        ls "$pyenv_root/versions"
    ) 2>/dev/null | sed -n 's/^\(python\)\{0,1\}\(3\.[0-9]*\).*/\2/p' | sort -t . -k 2,2nr -u
}

wanted=$*
if [ -z "$wanted" ]; then
    found python3
    found python
    wanted=$(versions)
fi
for version in $wanted; do
    found "python$version"
    for folder in $(ls -d "$pyenv_root/versions/$version" "$pyenv_root/versions/$version"[.-]* \
        2>/dev/null | sort -rV); do
        found "$folder/bin/python"
    done
done
if [ -n "$*" ]; then
    echo "No Python $* found, on PATH or in $pyenv_root: install one (pyenv install ${1})." >&2
else
    echo "marda needs Python 3.11 or newer with venv: install one, or say where: make PYTHON=/path/to/python." >&2
fi
exit 1
