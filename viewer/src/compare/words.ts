import type { MatchedBy } from "../api/types";
import { percent } from "../charts/numbers";
import { count, counted } from "../format";
import type { Comparison } from "./comparison";

/** Says which tensors are not compared, since not all runs have them; "" if there are none. */
export function onlyText({ about }: Comparison): string {
  const lacking = about.runs
    .map(({ name }, i) => ({ name, sites: about.only[i] ?? 0 }))
    .filter(({ sites }) => sites > 0)
    .map(({ name, sites }) => `${counted(sites, "tensor")} of ${name} that not all runs have`);
  return lacking.length === 0 ? "" : `Not compared: ${lacking.join("; ")}.`;
}

const REASONS: Record<MatchedBy, string> = {
  path: "path",
  name: "path without the model's name and counters",
  shape: "position and shape",
};

/** Says by what layers of different runs were matched. */
export function matchedText({ about }: Comparison): string {
  const reasons = about.matched.filter((reason) => reason !== null);
  if (reasons.length === 0)
    return "No layer of the first run has a counterpart in all other runs: neither by path, nor by position and shape. The whole model and the losses are compared.";
  const counts = (["path", "name", "shape"] as const)
    .map((reason) => ({ reason, rows: reasons.filter((one) => one === reason).length }))
    .filter(({ rows }) => rows > 0);
  const several = counts.length > 1;
  const parts = counts.map(
    ({ reason, rows }) => `${several ? `${counted(rows, "row")} ` : ""}by ${REASONS[reason]}`,
  );
  return `Layers are matched ${parts.join(", ")}.`;
}

/** What a row is called in another run, and why it is the same; "" if its path is the same. */
export function counterpartText({ about }: Comparison, run: number, row: number): string {
  const [path, reason] = [about.counterparts[run - 1]?.[row] ?? "", about.matched[row]];
  if (reason === null || reason === undefined || reason === "path") return "";
  return `${path ? `${path} in ${about.runs[run]?.name}, ` : ""}matched by ${REASONS[reason]}`;
}

/** Says that rows are blocks, since there are too many tensors; "" if they are not. */
export function mergedText({ about }: Comparison, sites: number): string {
  const blocks =
    about.paths.length > 1 && about.merged.every(Boolean) && about.paths.length < sites / 4;
  return blocks
    ? `The runs have ${count(sites)} tensors, too many for one row each, so rows are whole blocks. Use "Only" to select single tensors.`
    : "";
}

/** Where the distances in a column are: "at step 153" or "at steps 144 to 155". */
export function columnText({ about, position }: Comparison, column: number): string {
  const begin = position[column] ?? 0;
  const { align, width } = about;
  if (align === "fraction") return `at ${percent(begin)} to ${percent(begin + width)} of training`;
  if (width === 1) return `at step ${count(begin)}`;
  return `at steps ${count(begin)} to ${count(begin + width - 1)}`;
}
