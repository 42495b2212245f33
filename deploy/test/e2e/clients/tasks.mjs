// tasks are what people do most often in a household, with the clicks and the fields to fill in that each may take at
// most, from the page where the person is: the start page, or the one that a link opens.
export const tasks = {
  "open an application": { clicks: 1, fields: 0 },
  "log in by passkey": { clicks: 1, fields: 0 },
  "log in by password and code": { clicks: 2, fields: 3 },
  "invite": { clicks: 2, fields: 0 },
  "join": { clicks: 1, fields: 2 },
  "set up codes from an app": { clicks: 3, fields: 1 },
  "add a passkey": { clicks: 1, fields: 0 },
  "help with a forgotten password": { clicks: 1, fields: 0 },
  "end a session elsewhere": { clicks: 2, fields: 0 },
  "add an application": { clicks: 2, fields: 3 },
  "have an application ask who signs in": { clicks: 4, fields: 2 },
  "take over an address that was refused": { clicks: 1, fields: 0 },
  "sign in to an application the first time": { clicks: 1, fields: 2 },
  "sign in a program that shows a code": { clicks: 2, fields: 1 },
  "disconnect an application": { clicks: 2, fields: 0 },
};
