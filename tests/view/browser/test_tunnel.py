"""The viewer at the other end of a tunnel, whose port is another one."""

import socket
import threading
from contextlib import contextmanager, suppress

from tests.view.chromium import Watched


def copy(source, target):
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def tunnel(port):
    """A port whose connections lead to another, as `ssh -L` makes one."""
    open_sockets, threads = [], []

    def start(function, *arguments):
        threads.append(threading.Thread(target=function, args=arguments, daemon=True))
        threads[-1].start()

    def take(listener):
        with suppress(OSError):
            while True:
                near = listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", port))
                open_sockets.extend((near, far))
                start(copy, near, far)
                start(copy, far, near)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        start(take, listener)
        yield listener.getsockname()[1]
        for each in (listener, *open_sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(60)
        for each in open_sockets:
            each.close()


def test_the_page_works_through_a_tunnel_and_not_by_another_name(browser, server):
    with tunnel(server.port) as port, Watched(browser) as window:
        link = server.link.replace(f"127.0.0.1:{server.port}", f"localhost:{port}")
        window.page.goto(link)
        window.page.get_by_role("link", name="golden").first.click()
        window.page.get_by_role("region", name="loss", exact=True).wait_for()
        assert window.wrong == []
        assert {address.split("/")[2] for address in window.requests} == {f"localhost:{port}"}
        cookies = window.page.context.cookies()
        assert [cookie["name"] for cookie in cookies] == [f"gradwatch-{port}"]
        again = window.page.request.get(
            f"http://localhost:{port}/api/runs", headers={"host": f"evil.example:{port}"}
        )
        assert again.status == 403
