import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { evenly, Kernel, KernelSource } from "../src/api/kernel";
import type { Connection } from "../src/api/source";

interface Request {
  id: string;
  name: string;
  parameters: Record<string, unknown>;
}

let asked: Request[];
let kernel: Kernel;
let connection: Connection;

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  kernel = new Kernel({ postMessage: (message: Request) => asked.push(message) });
  kernel.onConnection((now) => {
    connection = now;
  });
});
afterEach(() => vi.useRealTimers());

const answer = (place: number, status: number, content: unknown) =>
  kernel.receive({ id: asked[place]?.id ?? "", status, answer: content });

test("A kernel that does not answer is busy until it does", async () => {
  const tree = kernel.ask("tree", { kind: "gradient" });
  expect(connection).toBe("live");
  vi.advanceTimersByTime(2000);
  expect([connection, kernel.busy]).toEqual(["busy", true]);
  answer(0, 200, "the tree");
  expect(await tree).toBe("the tree");
  expect([connection, kernel.busy]).toEqual(["live", false]);
});

test("A request that was refused is an error with the kernel's reason", async () => {
  const failed = kernel.ask("series", {});
  answer(0, 404, "There is no such site.");
  await expect(failed).rejects.toMatchObject({ status: 404, message: "There is no such site." });
});

test("Nobody waits for what was aborted, but the kernel is busy still", async () => {
  const stop = new AbortController();
  const stopped = kernel.ask("series", {}, stop.signal);
  stop.abort();
  await expect(stopped).rejects.toThrow();
  vi.advanceTimersByTime(2000);
  expect([connection, kernel.busy]).toEqual(["live", true]);
  answer(0, 200, "late");
  expect(kernel.busy).toBe(false);
});

test("Answers to other views of the widget are left to them", async () => {
  const other = new Kernel({ postMessage: () => {} });
  const mine = other.ask("run", {});
  const own = kernel.ask("run", {});
  other.receive({ id: asked[0]?.id ?? "", status: 200, answer: "another's" });
  answer(0, 200, "own");
  expect(await own).toBe("own");
  expect(await Promise.race([mine, Promise.resolve("nothing")])).toBe("nothing");
});

test("Another rank's pages are requested, the first rank's overview is there", async () => {
  const run = { id: "x", name: "a" };
  const overview = JSON.stringify({ run, heatmaps: [], numbers: null, curves: null, ranks: [] });
  kernel.receive({ said: "", trees: JSON.stringify([{ kind: "gradient" }]), overview });
  const source = new KernelSource(kernel);
  expect(await source.run("x")).toEqual(run);
  expect(await source.tree("x", "gradient")).toEqual({ kind: "gradient" });
  expect(asked).toEqual([]);
  const other = source.ofRank("2").run("x");
  expect(asked).toMatchObject([{ name: "run", parameters: { run: "x", rank: "2" } }]);
  answer(0, 200, { ...run, name: "b" });
  expect(await other).toMatchObject({ name: "b" });
});

test("Of many steps some are taken, with the first and the last", () => {
  expect(evenly([1, 2, 3], 12)).toEqual([1, 2, 3]);
  const some = evenly(
    Array.from({ length: 100 }, (_, i) => i),
    12,
  );
  expect([some.length, some[0], some.at(-1)]).toEqual([12, 0, 99]);
  expect(new Set(some).size).toBe(12);
});
