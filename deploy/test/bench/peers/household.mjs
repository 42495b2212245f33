// The account module as one would write it with Express: the routes of auth that
// are measured, on the usual packages. Its users are in memory, which costs
// nothing; ours are in a database.
//
// settings: PORT, REDIS_PORT, PASSWORD (of the user "admin"), LIMIT (failed logins a
// minute)
import { randomBytes } from "node:crypto";
import bcrypt from "bcrypt";
import { RedisStore } from "connect-redis";
import express from "express";
import { rateLimit } from "express-rate-limit";
import session from "express-session";
import { createClient } from "redis";

const week = 7 * 24 * 60 * 60 * 1000;
const admin = {
  id: 1,
  username: "admin",
  display_name: "admin",
  avatar_color: "#007AFF",
  role: "admin",
  password_hash: await bcrypt.hash(process.env.PASSWORD, 12),
};
const users = new Map([[admin.id, admin]]);
const usersByName = new Map([[admin.username, admin]]);

const redis = createClient({ url: `redis://127.0.0.1:${process.env.REDIS_PORT}` });
await redis.connect();

const app = express();
app.use(express.json());
app.use(
  session({
    name: "svc.sid",
    secret: "a secret of the benchmark, which need not be unguessable",
    store: new RedisStore({ client: redis, prefix: "express:" }),
    resave: false,
    saveUninitialized: false,
    cookie: { httpOnly: true, secure: false, sameSite: "lax", maxAge: week },
  }),
);

const limit = rateLimit({
  windowMs: 60_000,
  limit: Number(process.env.LIMIT),
  skipSuccessfulRequests: true,
  standardHeaders: true,
  legacyHeaders: false,
});

const authenticated = (req, res, next) =>
  req.session.userId ? next() : res.status(401).json({ error: "Nicht angemeldet", code: 401 });

const answer = (user, csrfToken) => {
  const { id, username, display_name, avatar_color, role } = user;
  return { user: { id, username, display_name, avatar_color, role }, csrfToken };
};

const sendToken = (res, token) =>
  res.cookie("csrf-token", token, { httpOnly: false, secure: false, sameSite: "lax", maxAge: week });

app.post("/api/v1/auth/login", limit, async (req, res) => {
  const { username, password } = req.body ?? {};
  const user = usersByName.get(username);
  if (!user || !(await bcrypt.compare(password, user.password_hash))) {
    return res.status(401).json({ error: "Falsche Zugangsdaten", code: 401 });
  }
  req.session.regenerate((error) => {
    if (error) return res.status(500).json({ error: "Interner Fehler", code: 500 });
    req.session.userId = user.id;
    req.session.role = user.role;
    req.session.csrfToken = randomBytes(32).toString("hex");
    sendToken(res, req.session.csrfToken);
    res.json(answer(user, req.session.csrfToken));
  });
});

app.get("/api/v1/auth/me", authenticated, (req, res) => {
  const user = users.get(req.session.userId);
  if (!user) return res.status(401).json({ error: "Nicht angemeldet", code: 401 });
  sendToken(res, req.session.csrfToken);
  res.json(answer(user, req.session.csrfToken));
});

app.get("/health", (_req, res) => res.json({ status: "ok" }));
app.listen(Number(process.env.PORT), "127.0.0.1");
