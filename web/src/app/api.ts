/** Asking the server. What takes long is a job: it is followed until it ends, and can be stopped. */

export interface Job<T = unknown> {
  job: string;
  state: "waiting" | "running" | "done" | "failed" | "stopped";
  says: string;
  done: number;
  of: number;
  error: string;
  notes: string[];
  result: T | null;
}

/** What the server refuses, in its own sentence. */
export class Refused extends Error {}

/** Somebody said that it need not go on. */
export class Stopped extends Error {}

async function answered(path: string, how: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { ...how, credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new Refused("The server does not answer: is regard serve still running?");
  }
  if (answer.ok) return answer;
  const said = (await answer.json().catch(() => ({}))) as { error?: string };
  if (answer.status === 409) throw new Stopped(said.error);
  throw new Refused(said.error ?? `The server answered ${answer.status}.`);
}

export async function ask<T>(path: string, body?: unknown, method?: string): Promise<T> {
  const how: RequestInit = { method: method ?? (body === undefined ? "GET" : "POST") };
  if (body instanceof Blob) how.body = body;
  else if (body !== undefined) {
    how.body = JSON.stringify(body);
    how.headers = { "content-type": "application/json" };
  }
  return (await (await answered(path, how)).json()) as T;
}

/** Start a job and wait for what it makes; `tell` hears how far it is, and gets null at the end. */
export async function follow<T>(path: string, body: unknown, tell: (job: Job<T> | null) => void): Promise<T> {
  try {
    let job = await ask<Job<T>>(path, body);
    for (;;) {
      if (job.state === "done") {
        if (job.notes.length) tell(job); // what is to be known of the result: that a text was cut, say
        return job.result!;
      }
      if (job.state === "failed") throw new Refused(job.error);
      if (job.state === "stopped") throw new Stopped(job.says);
      tell(job);
      job = await ask<Job<T>>(`/api/jobs/${job.job}`);
    }
  } finally {
    tell(null);
  }
}

export const stop = (job: Job): Promise<unknown> => ask(`/api/jobs/${job.job}`, undefined, "DELETE");

/** Bytes that may have to be made first. */
export async function bytes(path: string): Promise<ArrayBuffer> {
  for (;;) {
    const answer = await answered(path);
    if (answer.status !== 202) return answer.arrayBuffer();
  }
}
