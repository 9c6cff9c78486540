"""Run the page's interpreter under Node, if there is one."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np

import mpnp.explore

NODE = shutil.which("node")

PAGE = Path(mpnp.explore.__file__).parent / "page"

HARNESS = """
const { content, calls } = JSON.parse(require("fs").readFileSync(0));
const predictor = new Predictor(content.model, decodeWeights(content.index, content.weights));
const tensor = ([type, shape, data]) => new Tensor(new TYPES[type](data), shape);
const plain = (array) => [array.shape, Array.from(array.values())];
console.log(JSON.stringify(calls.map(([name, inputs]) => predictor.programs[name].run(inputs.map(tensor)).map(plain))));
"""


def run_programs(content, calls):
    """Results of programs by name for these inputs, as JavaScript computes them."""
    scripts = "\n".join((PAGE / name).read_text() for name in ("program.js", "predictor.js"))
    inputs = [[name, [[str(a.dtype), list(a.shape), a.ravel().tolist()] for a in arrays]] for name, arrays in calls]
    text = json.dumps({"content": content, "calls": inputs})
    run = subprocess.run([NODE, "-e", scripts + HARNESS], input=text, capture_output=True, text=True, check=True)
    return [[np.array(data).reshape(shape) for shape, data in results] for results in json.loads(run.stdout)]
