import type { Doubles, JsonNumber } from "./types";

/** Decodes base64 of little-endian doubles. */
export function decodeDoubles(text: Doubles): Float64Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Float64Array(bytes.buffer, 0, bytes.length >> 3);
}

/** Encodes numbers as base64 of little-endian doubles. */
export function encodeDoubles(values: Float64Array): Doubles {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const pieces: string[] = [];
  // The number of arguments of String.fromCharCode is limited.
  for (let i = 0; i < bytes.length; i += 8192)
    pieces.push(String.fromCharCode(...bytes.subarray(i, i + 8192)));
  return btoa(pieces.join(""));
}

/** The value of a JSON number, where NaN and infinities are strings. */
export function fromJson(value: JsonNumber): number {
  if (typeof value === "number") return value;
  return { nan: Number.NaN, inf: Number.POSITIVE_INFINITY, "-inf": Number.NEGATIVE_INFINITY }[
    value
  ];
}
