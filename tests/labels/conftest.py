import importlib.util
import os
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def titanic():
    folder = os.environ.get("DIVULGE_DATA")
    if not folder:
        pytest.skip("needs the Titanic table (environment variable DIVULGE_DATA)")
    return np.load(Path(folder) / "titanic2201.npz")["y"].astype(np.int64)


@pytest.fixture(scope="session")
def server_module():
    pytest.importorskip("fastapi")
    place = ROOT / "examples" / "leaderboard" / "server.py"
    module_spec = importlib.util.spec_from_file_location("leaderboard_server", place)
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module  # dataclasses look their module up
    module_spec.loader.exec_module(module)
    return module


@pytest.fixture
def leaderboard(server_module, tmp_path):
    """Starts real leaderboards on loopback: ``leaderboard(y, clip=…, quota=…) -> url``."""
    import uvicorn

    running = []

    def start(y, **options):
        rules = server_module.Rules(**options)
        app = server_module.create_app(tmp_path / f"board{len(running)}.sqlite", np.asarray(y), rules)
        return serve(app)

    def serve(app):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        running.append((server, thread))
        return f"http://127.0.0.1:{port}/submit"

    start.app = serve
    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()
